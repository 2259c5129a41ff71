#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "base/file.hpp"
#include "base/json.hpp"
#include "base/output.hpp"
#include "base/progress.hpp"
#include "cli/auto.hpp"
#include "cli/commands.hpp"
#include "cli/common.hpp"
#include "cli/number.hpp"
#include "cli/output_name.hpp"
#include "measure/describe.hpp"
#include "measure/profile.hpp"

namespace headroom {
namespace {

struct Arguments {
  ModelArguments model;
  SwitchArguments switches;
  GeneratorOptions request;
  ImageSize size;
  ProfileOptions options;
  std::string save;
  std::string trace;
  bool every_launch = false;
  bool by_module = false;
  bool as_json = false;
};

/// Progress over each phase in turn.
class PhaseProgress {
 public:
  explicit PhaseProgress(bool quiet) : quiet_(quiet) {}
  void show(std::string_view phase, std::int64_t done, std::int64_t total) {
    if (!shown_)
      shown_.emplace(std::string(phase), total, quiet_);
    else if (phase != phase_)
      shown_->begin(std::string(phase), total);
    phase_ = phase;
    shown_->set(done);
  }

 private:
  bool quiet_;
  std::string phase_;
  std::optional<Progress> shown_;
};

ResultFile to_file(const std::vector<std::string>& asked, const SwitchSet& switches, const Engine& engine,
                   const Generator& generator, const Profile& measured) {
  const DenoiseRequest& request = generator.request();
  ResultFile file = begin_result_file();
  Result result =
      begin_result(switches, describe_denoise(*engine.model, request, request.steps, generator.guidance_scale()),
                   generator.compiled(), engine.network().checkpoint, *engine.backend);
  result.configuration.asked = asked;
  add_plan_and_memory(result, file.plans, generator.session(), *engine.weights, *engine.backend);
  result.trials.push_back(make_series("step", measured.steps));
  if (measured.floors.size() > 1) result.trials.push_back(make_series("step_floor", measured.floors));
  result.profile = measured.launches;
  file.results.push_back(std::move(result));
  return file;
}

void run_profile(const Arguments& arguments) {
  const Log log(arguments.model.quiet);
  const SwitchRequest asked = SwitchRequest::parse(arguments.switches.list);
  for (const std::string& path : {arguments.save, arguments.trace})
    if (!path.empty()) check_writable(path);
  const Engine engine = open_engine(arguments.model);
  GeneratorOptions options = arguments.request;
  resolve_size(*engine.model, arguments.size, options);
  const auto [switches, names] =
      choose_switches(asked, arguments.switches, *engine.backend, make_auto_request(*engine.model, options), log);
  options.switches = switches;
  Generator generator(*engine.model, *engine.backend, *engine.weights, options);
  report_declined(log, generator.compiled().declined);
  const std::vector<ImageRequest> requests =
      make_image_requests(*engine.model, 0, generator.request().images, /*seed=*/0);
  PhaseProgress progress(arguments.model.quiet);
  const Profile measured = profile(
      generator, *engine.backend, requests, arguments.options,
      [&](std::string_view phase, std::int64_t done, std::int64_t total) { progress.show(phase, done, total); });
  const PlanRecord plan = describe_plan(generator.session().program());
  const ResultFile file = to_file(names, switches, engine, generator, measured);
  if (!arguments.save.empty()) write_results(arguments.save, file);
  if (!arguments.trace.empty()) write_file_atomically(arguments.trace, to_chrome_trace(measured.slices));
  const ProfileRows rows = arguments.every_launch ? ProfileRows::kLaunch
                           : arguments.by_module  ? ProfileRows::kModule
                                                  : ProfileRows::kOp;
  print_out("{}", arguments.as_json ? dump_json(to_json(file), 2) + "\n" : to_profile_table(measured, plan, rows));
}

}  // namespace

void add_profile_command(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("profile", "where the time of a denoise step goes, launch by launch, and the floor of each");
  const auto arguments = std::make_shared<Arguments>();
  add_model_arguments(*command, arguments->model);
  add_auto_switches(*command, arguments->switches, "lossless");
  add_request_options(*command, arguments->request, arguments->size);
  command->add_option("--trials", arguments->options.trials, "steps to time, at least")
      ->check(whole_number(3, 100'000))
      ->capture_default_str();
  command
      ->add_option("--turns", arguments->options.turns,
                   "turns in which steps and floors are measured, for a machine whose speed changes")
      ->check(whole_number(1, 1000))
      ->capture_default_str();
  command->add_flag("--every-launch", arguments->every_launch, "a line for each launch instead of each kind of op");
  command->add_flag("--by-module", arguments->by_module, "a line for each module, equal ones of all blocks together")
      ->excludes("--every-launch");
  command
      ->add_option("--trace", arguments->trace,
                   "trace of the last request to write, in Chrome's format: one track for each stream")
      ->check(written_as({".json"}))
      ->type_name("FILE");
  command->add_option("--save", arguments->save, "result file to write (schema headroom.result/1)")
      ->check(written_as({".json"}))
      ->type_name("FILE");
  command->add_flag("--json", arguments->as_json, "print the result file");
  command->footer("Example: headroom profile models/fashion-flux --images 10 --opt fast --threads 2");
  command->callback([arguments] { run_profile(*arguments); });
}

}  // namespace headroom
