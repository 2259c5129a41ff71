#include <algorithm>
#include <array>
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
#include "cli/commands/asked_pass.hpp"
#include "cli/commands/auto.hpp"
#include "cli/commands/commands.hpp"
#include "cli/commands/profile_subject.hpp"
#include "cli/common.hpp"
#include "cli/phase_progress.hpp"
#include "cli/table_output.hpp"
#include "doctor/checks.hpp"
#include "doctor/measure_machine.hpp"
#include "doctor/report.hpp"
#include "kernels/core/limit_isa.hpp"
#include "measure/probes/profile.hpp"

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

void require_known_ids(const std::vector<std::string>& ids) {
  std::vector<std::string> known;
  for (const doctor::CheckText& check : doctor::all_checks()) known.emplace_back(check.id);
  for (const std::string& id : ids)
    if (std::ranges::find(known, id) == known.end())
      fail_usage("--fail-on: '{}' is no check{}", id, did_you_mean(id, known));
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

/// The plan of a request or pass, and unless `quick` where the time of a step goes.
doctor::ModelFacts look_at_model(const DoctorArguments& arguments, const Engine& engine) {
  const Log log(arguments.model.quiet);
  const SwitchRequest asked = arguments.switches.request();
  const bool is_whole = engine.pipeline != nullptr && (arguments.pass.empty() || arguments.pass == kWholeRequest);
  RequestOptions options = arguments.request;
  options.switches = asked.fixed;
  if (is_whole) resolve_size(*engine.pipeline, arguments.size, options);
  const AutoRequest request =
      is_whole
          ? make_auto_request(*engine.pipeline, options)
          : AutoRequest{.forward = asked_passes(engine, arguments.pass, options, arguments.size)(0), .denoise = {}};
  const SwitchSet switches = choose_switches(asked, arguments.switches, *engine.backend, request, log).set;
  options.switches = switches;
  const Target target = engine.backend->properties().target;
  const WithoutEffect named(log, arguments.switches);
  const auto look = [&](const Compiled& compiled) {
    return doctor::look_at_plan(
        compiled, switches, [&](std::string_view name) { return named.is_named(name); }, target);
  };
  if (arguments.quick)
    return look(is_whole ? compile_denoise(*engine.pipeline, engine.pipeline->resolve(options), switches,
                                           engine.backend->properties().target)
                         : compile(request.forward, switches, engine.backend->properties().target));
  ProfileSubject subject =
      is_whole ? prepare_request(engine, options) : prepare_pass(engine, request.forward, switches);
  doctor::ModelFacts facts = look(subject.compiled);
  const ProfiledRun run = subject.run();
  PhaseProgress progress(arguments.model.quiet);
  const Profile measured = profile(
      run, *engine.backend, {.trials = 5, .floor_seconds = 0.1},
      [&](std::string_view phase, std::int64_t done, std::int64_t total) { progress.show(phase, done, total); });
  doctor::add_times(facts, measured, run.session.program());
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
  if (has_model) engine = open_network(arguments.model);
  if (has_model && !arguments.model.random_weights) facts.model = doctor::look_at_files(weight_files_of(*engine));
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
  for (CLI::Option* const option : command->get_options())
    if (!is_for_machine(*option)) option->needs(model);
  command->add_flag("--quick", arguments->quick, "measure nothing: of a model the plan alone");
  command
      ->add_option("--fail-on", arguments->fail_on,
                   "exit with 3 only if this check finds something, whatever it costs; may be given several times")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->type_name("ID");
  command
      ->add_option("--trace", arguments->trace,
                   "look at a trace of torch.profiler instead of this machine: .json or .json.gz")
      ->type_name("FILE")
      ->excludes(model);
  command->add_flag("--list", arguments->list, "list the checks as a Markdown table and look at nothing");
  command->add_flag("--json", arguments->as_json, "machine-readable output, schema headroom.doctor/1");
  command->footer(
      "Example: headroom doctor --quick\n"
      "         headroom doctor fashion-flux --json\n"
      "         headroom doctor --trace trace.json.gz\n"
      "         headroom doctor --fail-on cpu-quota --fail-on gpu-throttled");
  command->callback([arguments, &exit_code] {
    require_known_ids(arguments->fail_on);
    if (arguments->list)
      print_out("{}", doctor::checks_as_markdown());
    else
      exit_code = arguments->trace.empty() ? run_doctor(*arguments) : read_profile_of_pytorch(*arguments);
  });
}

}  // namespace headroom
