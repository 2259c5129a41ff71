#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "base/error.hpp"
#include "base/files/file.hpp"
#include "base/output.hpp"
#include "base/progress.hpp"
#include "base/text/json.hpp"
#include "cli/commands/auto.hpp"
#include "cli/commands/commands.hpp"
#include "cli/commands/profile_subject.hpp"
#include "cli/common.hpp"
#include "cli/number.hpp"
#include "cli/output_name.hpp"
#include "cli/phase_progress.hpp"
#include "cli/table_output.hpp"
#include "measure/probes/profile.hpp"
#include "measure/results/describe.hpp"
#include "measure/work/asked_pass.hpp"
#include "pipelines/examples.hpp"
#include "pipelines/generator.hpp"

namespace headroom {
namespace {

struct ProfileArguments {
  ModelArguments model;
  SwitchArguments switches;
  RequestOptions request;
  ImageSize size;
  ProfileOptions options;
  std::string pass;  ///< empty: a whole request, or the first pass of a network that is no denoiser
  std::string save;
  std::string trace;
  bool every_launch = false;
  bool by_module = false;
  TableOutput output;
};

ResultFile to_file(const ChosenSwitches& switches, const Engine& engine, const ProfileSubject& subject,
                   const Session& session, const Profile& measured) {
  ResultFile file = begin_result_file();
  Result result =
      begin_result(switches.set, subject.work, subject.compiled, engine.network().checkpoint, *engine.backend);
  switches.describe(result.configuration);
  add_plan_and_memory(result, file.plans, session, *engine.weights, *engine.backend);
  result.trials.push_back(make_series(subject.series, measured.steps));
  if (measured.floors.size() > 1)
    result.trials.push_back(make_series(std::string(subject.series) + "_floor", measured.floors));
  result.profile = measured.launches;
  file.results.push_back(std::move(result));
  return file;
}

void run_profile(const ProfileArguments& arguments) {
  const Log log(arguments.model.quiet);
  const SwitchRequest asked = arguments.switches.request();
  if (!arguments.save.empty()) check_clock();
  for (const std::string& path : {arguments.save, arguments.trace})
    if (!path.empty()) check_writable(path);
  const Engine engine = open_network(arguments.model);
  const bool is_setup = engine.pipeline != nullptr && arguments.pass == kSetupStage;
  const bool is_whole =
      engine.pipeline != nullptr && (arguments.pass.empty() || arguments.pass == kWholeRequest || is_setup);
  RequestOptions options = arguments.request;
  options.switches = asked.fixed;
  if (is_whole) resolve_size(*engine.pipeline, arguments.size, options);
  const WithoutEffect without_effect(log, arguments.switches);
  without_effect.say(is_whole ? engine.pipeline->idle_options(options, {})
                              : idle_of_pass(engine, arguments.pass, options, arguments.size));
  const AutoRequest request =
      is_whole
          ? make_auto_request(*engine.pipeline, options)
          : AutoRequest{.forward = asked_passes(engine, arguments.pass, options, arguments.size)(0), .denoise = {}};
  const ChosenSwitches switches = choose_switches(asked, arguments.switches, *engine.backend, request, log);
  options.switches = switches.set;
  ProfileSubject subject = is_setup   ? prepare_setup(engine, options)
                           : is_whole ? prepare_request(engine, options)
                                      : prepare_pass(engine, request.forward, switches.set);
  without_effect.say(subject.compiled.declined);
  report_notes(log, subject.compiled);
  const ProfiledRun run = subject.run();
  PhaseProgress progress(arguments.model.quiet);
  const Profile measured = profile(
      run, *engine.backend, arguments.options,
      [&](std::string_view phase, std::int64_t done, std::int64_t total) { progress.show(phase, done, total); });
  if (arguments.output.is_json())  // the table has the same information
    for (const std::string& disturbance : measured.disturbances) log.info("disturbed: {}", disturbance);
  const PlanRecord plan = describe_plan(run.session.program());
  const ResultFile file = to_file(switches, engine, subject, run.session, measured);
  if (!arguments.save.empty()) write_results(arguments.save, file);
  if (!arguments.trace.empty()) write_file_atomically(arguments.trace, to_chrome_trace(measured.slices));
  const ProfileRows rows = arguments.every_launch ? ProfileRows::kLaunch
                           : arguments.by_module  ? ProfileRows::kModule
                                                  : ProfileRows::kOp;
  if (arguments.output.is_json()) {
    print_out("{}\n", dump_json(to_json(file), 2));
    return;
  }
  Printout printout = to_profile_table(measured, plan, rows);
  printout.add(subject.describe_setup());
  print_tables(printout, arguments.output);
}

}  // namespace

void add_profile_command(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("profile", "show the time of each launch of a denoise step or forward pass, and its floor");
  const auto arguments = std::make_shared<ProfileArguments>();
  add_model_arguments(*command, arguments->model);
  add_auto_switches(*command, arguments->switches, "lossless");
  add_request_options(*command, arguments->request, arguments->size);
  command->add_option(
      "--pass", arguments->pass,
      "one pass instead of a request's denoise loop: forward, the loop's setup, a stage of a pipeline such "
      "as text_encoder or decode, or for an autoencoder decode, encode, ...");
  command->add_option("--trials", arguments->options.trials, "minimum number of steps or passes to time")
      ->check(whole_number(3, 100'000))
      ->capture_default_str();
  command
      ->add_option("--rounds", arguments->options.rounds,
                   "rounds in which steps and floors are measured alternately, for a machine whose speed changes")
      ->check(whole_number(1, 1000))
      ->capture_default_str();
  command->add_flag("--every-launch", arguments->every_launch, "one line for each launch instead of each kind of op");
  command
      ->add_flag("--by-module", arguments->by_module,
                 "one line for each module, with the same module of all blocks added up")
      ->excludes("--every-launch");
  command
      ->add_option("--trace", arguments->trace,
                   "file for a trace of the last request in Chrome's format, one track for each stream")
      ->check(written_as({".json"}))
      ->type_name("FILE");
  command->add_option("--out", arguments->save, "result file to write (schema headroom.result/1); - for --json")
      ->check(written_as({".json"}, Dash::kTaken))
      ->type_name("FILE");
  add_table_options(*command, arguments->output, "print the result file instead of the table");
  command->footer(
      fmt::format("Example: headroom profile {} --batch 10 --opt fast --threads 2\n"
                  "         headroom profile {}/vae --pass decode --height 512 --width 512",
                  examples::kShipped, examples::kFolder));
  command->callback([arguments, command] {
    if (take_standard_output(*command, arguments->save)) arguments->output.format = "json";
    run_profile(*arguments);
  });
}

}  // namespace headroom
