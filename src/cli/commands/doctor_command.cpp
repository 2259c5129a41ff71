#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "base/output.hpp"
#include "base/text/json.hpp"
#include "base/text/nearest.hpp"
#include "cli/commands/auto.hpp"
#include "cli/commands/commands.hpp"
#include "cli/commands/profile_subject.hpp"
#include "cli/common.hpp"
#include "cli/number.hpp"
#include "cli/phase_progress.hpp"
#include "cli/table_output.hpp"
#include "doctor/checks.hpp"
#include "doctor/measure_machine.hpp"
#include "doctor/report.hpp"
#include "kernels/core/limit_isa.hpp"
#include "measure/probes/known_cards.hpp"
#include "measure/probes/profile.hpp"
#include "measure/probes/switch_predictions.hpp"
#include "measure/protocol/submissions.hpp"
#include "measure/statistics/effect.hpp"
#include "measure/work/asked_pass.hpp"

namespace headroom {
namespace {

struct DoctorArguments {
  ModelArguments model;
  SwitchArguments switches;
  RequestOptions request;
  ImageSize size;
  std::string pass;
  std::string trace;
  std::vector<std::string> fail_on;
  std::vector<std::string> on;
  int run_switches = 3;
  bool quick = false;
  bool as_json = false;
  bool list = false;
};

/// The files of the weights of a network or of all networks of a pipeline.
std::vector<std::filesystem::path> weight_files_of(const Engine& engine) {
  std::vector<std::filesystem::path> files;
  for (const Component& component : engine.components())
    for (std::filesystem::path& file : component.checkpoint.files()) files.push_back(std::move(file));
  std::ranges::sort(files);
  files.erase(std::ranges::unique(files).begin(), files.end());
  return files;
}

bool is_among(const auto& checks, const std::string& id) {
  return std::ranges::any_of(checks, [&](const auto& check) { return check.text.id == id; });
}

/// Throws a usage Error for an id of no check, or of one that is not made of what was given.
void require_checks(const DoctorArguments& arguments) {
  std::vector<std::string> known;
  for (const doctor::CheckText& check : doctor::all_checks()) known.emplace_back(check.id);
  for (const std::string& id : arguments.fail_on) {
    if (std::ranges::find(known, id) == known.end()) {
      const std::string meant = did_you_mean(id, known);
      fail_usage("--fail-on: '{}' is no check{}", id, meant.empty() ? "; `headroom doctor --list` lists them" : meant);
    }
    if (is_among(doctor::trace_checks(), id) == arguments.trace.empty())
      fail_usage("--fail-on: '{}' is a check {}", id,
                 arguments.trace.empty() ? "of a trace: give --trace FILE" : "that --trace does not make");
    if (is_among(doctor::model_checks(), id) && arguments.model.model.empty())
      fail_usage("--fail-on: '{}' is a check of a model: give MODEL", id);
  }
}

doctor::MachineSources sources_for(const ModelArguments& arguments) {
  const DeviceRequest request = parse_device(arguments.device);
  doctor::MachineSources sources = doctor::own_sources();
  if (request.kind) sources.wants_gpu = *request.kind == DeviceKind::kCuda;
  sources.gpu_index = request.index;
  sources.threads = arguments.threads;
  sources.isa_option = arguments.cpu_isa;
  return sources;
}

/// The device that is asked for, or the CPU if there is no such GPU: that is then a finding.
std::unique_ptr<Backend> open_for_measuring(const ModelArguments& arguments) {
  try {
    return make_backend(find_device(arguments.device), arguments.threads);
  } catch (const Error&) {
    return make_backend(DeviceKind::kCpu, arguments.threads);
  }
}

/// Enough steps of a loop to time one. A request with given steps, or from an image, keeps its own.
std::int64_t short_loop(const Pipeline& pipeline, const RequestOptions& options) {
  constexpr std::int64_t kSteps = 6;
  const Request request = pipeline.resolve(options);
  return options.switches.has("steps") || request.strength != 0 ? options.steps : std::min(request.steps, kSteps);
}

constexpr double kSecondsEach = 1;  // in which pairs of runs of a switch begin
constexpr std::size_t kMostRuns = 40;

/// The median step of one run.
double step_of_run(const ProfiledRun& run) {
  if (run.prepare) run.prepare();
  std::vector<double> steps;
  run.run([&](std::int64_t, double ms) { steps.push_back(ms); });
  return median(steps);
}

/// The median time of the profile's steps, its relative error, and on a GPU the times of its launches. Those on a CPU
/// are few and lengthened by other work, unlike the shortest time of a launch by itself.
MeasuredStep measured_step(const Profile& profile, bool has_launches) {
  std::vector<double> steps;
  for (const Trials& round : profile.steps) steps.insert(steps.end(), round.wall_ms.begin(), round.wall_ms.end());
  const auto [least, most] = std::ranges::minmax(steps);
  const double ms = median(steps);
  return {.ms = ms,
          .error = (most - least) / 2 / ms / std::sqrt(static_cast<double>(steps.size())),
          .launch_ms = has_launches ? profile.launches.time_ms : std::vector<double>()};
}

/// Prepares the same work under other switches.
using PrepareUnder = std::function<ProfileSubject(const SwitchSet& switches)>;

/// Runs the `count` switches with the largest predicted gains and fills SwitchPrediction::measured: steps of `current`
/// and of the work with the switch changed, alternately, at least one run of each. What does not fit is not run.
void run_best(std::vector<SwitchPrediction>& predictions, int count, const ProfiledRun& current,
              const PrepareUnder& prepare, const ProfileObserver& observer) {
  int done = 0;
  for (SwitchPrediction& one : predictions) {
    if (done == count || !one.declined.empty()) return;
    ++done;
    if (observer) observer("running switches", done, count);
    try {
      ProfileSubject subject = prepare(one.set);
      const ProfiledRun changed = subject.run();
      const double began_ms = steady_clock_ms();
      for (int i = 0; i < 2 && steady_clock_ms() < began_ms + 1000 * kSecondsEach; ++i)
        static_cast<void>(step_of_run(changed));  // records
      std::vector<double> current_ms, changed_ms;
      const double end_ms = steady_clock_ms() + 1000 * kSecondsEach;
      while (current_ms.empty() || (steady_clock_ms() < end_ms && current_ms.size() < kMostRuns)) {
        current_ms.push_back(step_of_run(current));
        changed_ms.push_back(step_of_run(changed));
      }
      one.measured_ms = median(changed_ms);
      one.measured = paired_factor(current_ms, changed_ms);
    } catch (const Error& cannot) {
      one.not_run = cannot.what();
    }
  }
}

/// The plan of a request or pass, and unless `quick` where the time of a step goes and what switches would gain.
doctor::ModelFacts look_at_model(const DoctorArguments& arguments, const Engine& engine) {
  const Log log(arguments.model.quiet);
  const SwitchRequest asked = arguments.switches.request();
  if (arguments.quick && asked.automatic)
    fail_usage("--quick measures nothing, but --opt auto chooses switches by measuring them; leave one of them out");
  const bool is_whole = engine.pipeline != nullptr && (arguments.pass.empty() || arguments.pass == kWholeRequest);
  RequestOptions options = arguments.request;
  options.switches = asked.fixed;
  if (is_whole) resolve_size(*engine.pipeline, arguments.size, options);
  const WithoutEffect named(log, arguments.switches);
  named.say(is_whole ? engine.pipeline->idle_options(options, {})
                     : idle_of_pass(engine, arguments.pass, options, arguments.size));
  const AutoRequest request =
      is_whole
          ? make_auto_request(*engine.pipeline, options)
          : AutoRequest{.forward = asked_passes(engine, arguments.pass, options, arguments.size)(0), .denoise = {}};
  const SwitchSet switches = choose_switches(asked, arguments.switches, *engine.backend, request, log).set;
  options.switches = switches;
  DeviceTarget target = engine.backend->properties().target;
  target.new_work = NewWork::kTakeOver;  // seconds for each work of each switch otherwise
  const CompileUnder compile_under = [&](const SwitchSet& set) {
    if (!is_whole) return compile(request.forward, set, target);
    RequestOptions switched = options;
    switched.switches = set;
    return compile_denoise(*engine.pipeline, engine.pipeline->resolve(switched), set, target);
  };
  const PrepareUnder prepare = [&](const SwitchSet& set) {
    if (!is_whole) return prepare_pass(engine, request.forward, set);
    RequestOptions switched = options;
    switched.switches = set;
    return prepare_request(engine, switched);
  };
  const auto look = [&](const Compiled& compiled) {
    if (named.is_strict()) named.say(compiled.declined);
    doctor::ModelFacts facts = doctor::look_at_plan(
        compiled, switches, [&](std::string_view name) { return named.is_named(name); }, target);
    if (!asked.automatic) facts.switches = arguments.switches.list;
    for (const std::string& key : arguments.on) facts.cards.push_back(predict_on(card_named(key), *compiled.program));
    return facts;
  };
  if (arguments.quick) return look(compile_under(switches));
  if (is_whole) options.steps = short_loop(*engine.pipeline, options);
  ProfileSubject subject = prepare(switches);
  doctor::ModelFacts facts = look(subject.compiled);
  const ProfiledRun run = subject.run();
  PhaseProgress progress(arguments.model.quiet);
  const ProfileObserver observer = [&](std::string_view phase, std::int64_t done, std::int64_t total) {
    progress.show(phase, done, total);
  };
  const Profile measured =
      profile(run, *engine.backend, {.trials = 5, .floor_seconds = 0.03, .times_alone = false}, observer);
  doctor::add_times(facts, measured, run.session.program());
  // Hundreds of launches are timed. Those of a GPU vary little, and their sum is compared with the profile.
  const std::unique_ptr<LaunchClock> clock = make_launch_clock(
      *engine.backend,
      facts.has_launches
          ? Protocol{.warmup_min = 1, .warmup_max = 5, .trials = 5, .max_seconds = 0.01, .min_trial_ms = 1}
          : short_protocol(*engine.backend, 0.05));
  facts.predictions = predict_switches(subject.compiled, switches, measured_step(measured, facts.has_launches),
                                       compile_under, *clock, observer);
  run_best(facts.predictions, arguments.run_switches, run, prepare, observer);
  return facts;
}

ExitCode print_report(const doctor::Report& report, const DoctorArguments& arguments) {
  if (arguments.as_json)
    print_out("{}\n", dump_json(nlohmann::json(doctor::to_json(report)), 2));
  else
    print_tables(doctor::to_printout(report));
  return doctor::exit_code_of(report.findings, arguments.fail_on);
}

ExitCode read_profile_of_pytorch(const DoctorArguments& arguments) {
  const doctor::TraceFacts facts = doctor::look_at_trace(arguments.trace);
  return print_report({.facts = doctor::describe(facts), .findings = doctor::run_checks(doctor::trace_checks(), facts)},
                      arguments);
}

ExitCode run_doctor(const DoctorArguments& arguments) {
  if (!arguments.model.cpu_isa.empty()) limit_cpu_isa(*parse_cpu_isa(arguments.model.cpu_isa));
  // Before this process has a context on a GPU, which would count as work of another.
  doctor::MachineFacts facts = doctor::read_machine(sources_for(arguments.model));
  const bool has_model = !arguments.model.model.empty();
  std::optional<Engine> engine;
  if (has_model) {
    std::filesystem::path place = find_model_folder(arguments.model.model);
    if (place.empty()) place = arguments.model.model;  // a file
    const doctor::CachedFiles cached = doctor::cached_files(place);
    ModelArguments model = arguments.model;
    model.cpu_isa.clear();  // in force already
    engine = open_network(model);
    if (!model.random_weights) facts.model = doctor::look_at_files(weight_files_of(*engine), cached);
  }
  if (!arguments.quick) facts.measured = doctor::measure_machine(*open_for_measuring(arguments.model));
  doctor::Report report = {.facts = doctor::describe(facts),
                           .findings = doctor::run_checks(doctor::machine_checks(), facts)};
  if (has_model) {
    report.model = look_at_model(arguments, *engine);
    std::ranges::move(doctor::run_checks(doctor::model_checks(), *report.model), std::back_inserter(report.findings));
    doctor::sort_by_severity(report.findings);
  }
  return print_report(report, arguments);
}

/// Whether an option of a command on a model has a meaning without one.
bool is_for_machine(const CLI::Option& option) {
  constexpr std::array<std::string_view, 6> kNames = {"MODEL",     "--help",    "--device",
                                                      "--threads", "--cpu-isa", "--quiet"};
  return std::ranges::find(kNames, option.get_name()) != kNames.end() || option.check_name("--help");
}

}  // namespace

void add_doctor_command(CLI::App& app, ExitCode& exit_code) {
  CLI::App* command = app.add_subcommand(
      "doctor", "find what makes a machine, a model or a trace of PyTorch slow, with the evidence and what mends it");
  const auto arguments = std::make_shared<DoctorArguments>();
  add_model_arguments(*command, arguments->model);
  CLI::Option* const model = command->get_option("MODEL")->required(false);
  add_auto_switches(*command, arguments->switches, "lossless");
  add_request_options(*command, arguments->request, arguments->size);
  add_pass_option(*command, arguments->pass);
  command
      ->add_option("--on", arguments->on,
                   "also predict a step on this card by its data sheet, without running it; may be given several times")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->type_name("CARD");
  command
      ->add_option("--run-switches", arguments->run_switches,
                   "how many of the switches with the largest predicted gains are run")
      ->check(whole_number(0, 100))
      ->type_name("N")
      ->capture_default_str();
  for (CLI::Option* const option : command->get_options())
    if (!is_for_machine(*option)) option->needs(model);
  CLI::Option* const quick =
      command->add_flag("--quick", arguments->quick, "measure nothing: of a model the plan alone");
  command
      ->add_option("--fail-on", arguments->fail_on,
                   "exit with 3 only if this check finds something, whatever it costs; may be given several times")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->type_name("ID");
  CLI::Option* const trace =
      command
          ->add_option("--trace", arguments->trace,
                       "look at a trace of torch.profiler instead of this machine: .json or .json.gz")
          ->type_name("FILE")
          ->excludes(model)
          ->excludes(quick);
  for (const char* const of_machine : {"--device", "--threads", "--cpu-isa"})
    trace->excludes(command->get_option(of_machine));
  CLI::Option* const json =
      command->add_flag("--json", arguments->as_json, "machine-readable output, schema headroom.doctor/1");
  command->add_flag("--list", arguments->list, "list the checks as a Markdown table and look at nothing")
      ->excludes(model)
      ->excludes(trace)
      ->excludes(quick)
      ->excludes(json);
  command->footer(
      "Example: headroom doctor --quick\n"
      "         headroom doctor fashion-flux --json\n"
      "         headroom doctor --trace trace.json.gz\n"
      "         headroom doctor --fail-on cpu-quota --fail-on gpu-throttled");
  command->callback([arguments, &exit_code] {
    require_checks(*arguments);
    for (const std::string& key : arguments->on) static_cast<void>(card_named(key));
    if (arguments->list)
      print_out("{}", doctor::checks_as_markdown());
    else
      exit_code = arguments->trace.empty() ? run_doctor(*arguments) : read_profile_of_pytorch(*arguments);
  });
}

}  // namespace headroom
