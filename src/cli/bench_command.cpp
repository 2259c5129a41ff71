#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "base/error.hpp"
#include "base/file.hpp"
#include "base/json.hpp"
#include "base/name_filter.hpp"
#include "base/output.hpp"
#include "base/progress.hpp"
#include "cli/asked_pass.hpp"
#include "cli/auto.hpp"
#include "cli/bench_judging.hpp"
#include "cli/bench_options.hpp"
#include "cli/commands.hpp"
#include "cli/common.hpp"
#include "cli/model_suite.hpp"
#include "cli/number.hpp"
#include "cli/output_name.hpp"
#include "measure/describe.hpp"
#include "measure/kernel_suite.hpp"
#include "measure/load_suite.hpp"
#include "measure/machine.hpp"
#include "measure/statistics.hpp"
#include "measure/submissions.hpp"
#include "measure/table.hpp"
#include "measure/trials.hpp"

namespace headroom {
namespace {

struct Arguments {
  ModelArguments model;
  SwitchArguments switches;
  GeneratorOptions request;  ///< its images are the samples of a pass
  ImageSize size;
  Protocol protocol;
  std::string pass;  ///< empty: the first
  bool first_step = false;
  bool cold = false;
  int turns = 1;
  std::string save;
  std::string filter;
  bool list = false;
  bool as_json = false;
  BenchJudging judging;
};

/// What `bench --list` prints: all suites, or the one that is named, of both what the filter takes.
void list_benchmarks(const Arguments& arguments) {
  const std::string& suite = arguments.model.model;
  const NameFilter filter(arguments.filter);
  const auto list = [&](std::string_view of, const std::string& name) {
    if (filter.takes(name)) print_out("{}{}\n", suite.empty() ? fmt::format("{}: ", of) : "", name);
  };
  if (suite.empty() || suite == "models")
    for (const ModelCase& one : list_model_cases(find_device(arguments.model.device).kind)) list("models", one.name());
  if (suite.empty() || suite == "kernels")
    for (const KernelCase& one : list_kernel_cases()) list("kernels", one.name);
}

/// `bench kernels`: the suite in place of a model.
void bench_suite(const Arguments& arguments) {
  const Log log(arguments.model.quiet);
  const std::unique_ptr<Backend> backend = open_backend(arguments.model);
  tell_device(Log(arguments.model.quiet), *backend);
  std::unique_ptr<Progress> progress;
  std::map<std::string, std::vector<std::string>> left_out;  // names by the reason
  const ResultFile file = bench_kernels(
      *backend,
      {.filter = arguments.filter,
       .max_seconds = std::min(arguments.protocol.max_seconds, 5.0),
       .cold = arguments.cold,
       .turns = arguments.turns},
      [&](const KernelBenchProgress& at) {
        if (!progress)
          progress =
              std::make_unique<Progress>("measuring", static_cast<std::int64_t>(at.total), arguments.model.quiet);
        progress->set(static_cast<std::int64_t>(at.done));
      },
      [&](std::string_view name, std::string_view reason) { left_out[std::string(reason)].emplace_back(name); });
  progress.reset();
  for (const auto& [reason, names] : left_out) log.warning("left out, because {}: {}", reason, fmt::join(names, ", "));
  if (!arguments.save.empty()) write_results(arguments.save, file);
  print_out("{}", arguments.as_json ? dump_json(to_json(file), 2) + "\n" : to_kernel_table(file));
}

/// `bench load`: how fast weights reach the device.
void bench_loading(const Arguments& arguments) {
  const std::unique_ptr<Backend> backend = open_backend(arguments.model);
  tell_device(Log(arguments.model.quiet), *backend);
  const ResultFile file = bench_load(*backend);
  if (!arguments.save.empty()) write_results(arguments.save, file);
  print_out("{}", arguments.as_json ? dump_json(to_json(file), 2) + "\n" : to_load_table(file));
}

/// Passes, each with the caches emptied before.
Trials time_cold_passes(Backend& backend, Session& session, const Protocol& protocol) {
  CacheEvictor evictor(backend);
  return time_cold_submissions(
      backend, session.stream(), [&] { session.submit(); }, evictor, protocol);
}

void print_memory(const MemoryReport& memory) {
  const auto text = [](const std::optional<std::int64_t>& bytes) {
    return format_bytes(static_cast<std::uint64_t>(bytes.value_or(0)));
  };
  print_out(
      "memory: {} of weights, {} of activations (scratch {}), {} of state, {} of inputs; {} held of {}, {} by others\n",
      text(memory.weights_bytes), text(memory.activations_bytes), text(memory.workspace_bytes),
      text(memory.state_bytes), text(memory.inputs_bytes), text(memory.reserved_bytes), text(memory.device_total_bytes),
      text(memory.untracked_bytes));
}

/// A forward pass that is ready to run, and what that took.
struct ReadyPass {
  ForwardPass pass;
  Compiled compiled;
  std::unique_ptr<Session> session;
  double plan_ms = 0;  ///< building, optimizing and planning
  double load_ms = 0;  ///< weights that were not there yet
};

ReadyPass prepare(const Engine& engine, ForwardPass pass, const SwitchSet& switches) {
  ReadyPass ready{.pass = std::move(pass), .compiled = {}, .session = {}};
  const double start = steady_clock_ms();
  ready.compiled = compile(ready.pass, switches, engine.backend->properties().target);
  ready.plan_ms = steady_clock_ms() - start;
  require_fit(ready.compiled, ready.pass, switches, *engine.weights, *engine.backend);
  const double load_start = steady_clock_ms();
  engine.weights->load(*ready.compiled.program);
  ready.load_ms = steady_clock_ms() - load_start;
  ready.session = std::make_unique<Session>(ready.compiled.program, *engine.weights, *engine.backend);
  ready.pass.set_inputs(*ready.session);
  return ready;
}

/// Milliseconds from a request of a shape not seen before to its first finished pass, the weights being there: three
/// shapes, a row smaller each (larger, where the image is that small).
Trials time_first_steps(const Engine& engine, const PassMaker& make, const SwitchSet& switches) {
  constexpr int kShapes = 3;
  const RequestSize size = make(0).size;
  const std::int64_t step = size.token_rows > kShapes ? -1 : 1;
  Trials trials;
  for (int i = 1; i <= kShapes; ++i) {
    const double start = steady_clock_ms();
    prepare(engine, make(i * step), switches).session->run();
    trials.wall_ms.push_back(steady_clock_ms() - start);
  }
  return trials;
}

void print_start(const ReadyPass& pass, double first_ms, std::size_t weight_bytes, const Trials& first_steps) {
  print_out("planned in {}; {} of weights loaded in {} ({} GB/s); first pass after {} more\n", format_ms(pass.plan_ms),
            format_bytes(weight_bytes), format_ms(pass.load_ms),
            format_significant(static_cast<double>(weight_bytes) / pass.load_ms * 1e-6), format_ms(first_ms));
  if (!first_steps.wall_ms.empty())
    print_out("a request of a new shape, weights in place: first pass finished after {}\n",
              format_ms(median(first_steps.wall_ms)));
}

void bench(const Arguments& arguments) {
  if (arguments.model.model == "kernels") return bench_suite(arguments);
  if (arguments.model.model == "load") return bench_loading(arguments);
  const Log log(arguments.model.quiet);
  const SwitchRequest asked = SwitchRequest::parse(arguments.switches.list);
  const Engine engine = open_network(arguments.model);
  const PassMaker make = asked_passes(engine, arguments.pass, arguments.request, arguments.size);
  ForwardPass asked_pass = make(0);
  const auto [switches, names] =
      choose_switches(asked, arguments.switches, *engine.backend, {.forward = asked_pass, .denoise = {}}, log);
  const ReadyPass ready = prepare(engine, std::move(asked_pass), switches);
  const ForwardPass& pass = ready.pass;
  const Compiled& compiled = ready.compiled;
  Session& session = *ready.session;
  report_declined(log, compiled.declined);
  const double start = steady_clock_ms();
  session.run();
  const double first_ms = steady_clock_ms() - start;

  Protocol protocol = arguments.protocol;
  protocol.gpu_pci_bus_id = pci_bus_id_of(*engine.backend);
  Progress progress("measuring", protocol.trials, arguments.model.quiet);
  const Trials trials = measure_callable([&] { session.run(); }, protocol,
                                         [&](const TrialProgress& at) {
                                           if (!at.warming_up) progress.set(at.done);
                                         });

  const Trials first_steps = arguments.first_step ? time_first_steps(engine, make, switches) : Trials{};

  PlanRecord plan = describe_plan(*compiled.program);
  const std::string id = plan_id(plan);
  const Machine machine = describe_machine();
  Result result{.id = switches.to_string(),
                .name = switches.to_string(),
                .subject = {.kind = SubjectKind::kModel,
                            .name = pass.model,
                            .request = pass.request,
                            .parameters = pass.parameters},
                .source = {.name = "headroom", .version = machine.build ? machine.build->version : ""},
                .configuration = describe_configuration(switches, compiled, *engine.backend),
                .trials = {make_series("forward", trials)},
                .memory = describe_memory(session, *engine.weights, *engine.backend),
                .quality = {},
                .tags = {},
                .plan = id};
  if (arguments.cold)
    result.trials.push_back(make_series("cold", time_cold_passes(*engine.backend, session, protocol)));
  if (arguments.first_step) {
    result.trials.push_back(make_series("plan", Trials{.wall_ms = {ready.plan_ms}}));
    result.trials.push_back(make_series("load", Trials{.wall_ms = {ready.load_ms}}));
    result.trials.push_back(make_series("first_run", Trials{.wall_ms = {first_ms}}));
    result.trials.push_back(make_series("first_step", first_steps));
  }
  result.configuration.asked = names;
  if (pass.checkpoint->is_random()) result.tags.emplace_back("random_weights");
  const ResultFile file{
      .created = utc_now(), .machine = machine, .plans = {{id, std::move(plan)}}, .results = {result}};
  if (!arguments.save.empty()) write_results(arguments.save, file);
  if (arguments.as_json) {
    print_out("{}\n", dump_json(to_json(file), 2));
    return;
  }
  const Summary& statistics = result.trials[0].statistics;
  print_out("{} {}, batch {}, {}: {} {} (n = {}, quartiles {} to {}), peak memory {}\n", pass.model,
            pass.request.at("pass").get<std::string>(), pass.size.images, switches.to_string(),
            format_ms(statistics.median),
            statistics.median_interval ? format_interval_ms(*statistics.median_interval) : "", statistics.n,
            format_ms(statistics.q1), format_ms(statistics.q3),
            format_bytes(static_cast<std::uint64_t>(result.memory->peak_bytes.value_or(0))));
  if (arguments.cold) {
    const Summary& cold = series_of(result, "cold").statistics;
    print_out("with cold caches: {} {}\n", format_ms(cold.median),
              cold.median_interval ? format_interval_ms(*cold.median_interval) : "");
  }
  print_memory(*result.memory);
  print_start(ready, first_ms, engine.weights->bytes(), first_steps);
  if (!trials.warmup_stable) log.warning("times had not settled after {} warm-up calls", trials.warmup);
}

/// Measures here, or in processes of their own that are then judged.
ExitCode bench_or_judge(Arguments& arguments, const CLI::App& command) {
  const std::string& what = arguments.model.model;
  check_bench_options(command, what);
  if (arguments.list) {
    list_benchmarks(arguments);
    return ExitCode::kOk;
  }
  if (what.empty()) fail_usage("bench needs a MODEL or a suite, kernels, models or load");
  apply_precision(arguments.judging, arguments.protocol);
  if (!arguments.save.empty()) check_writable(arguments.save);
  if (what != "models" && !is_judge(arguments.judging)) {
    bench(arguments);
    return ExitCode::kOk;
  }
  const Device device = find_device(arguments.model.device);
  std::vector<ModelCase> suite;
  if (what == "models") suite = filter_model_cases(list_model_cases(device.kind), arguments.filter);
  check_suite_options(command, suite);
  return judge_bench(command, arguments.judging, device, suite);
}

}  // namespace

void add_bench_command(CLI::App& app, ExitCode& exit_code) {
  CLI::App* command = app.add_subcommand("bench",
                                         "time one forward pass of a model in one configuration, or a suite: `bench "
                                         "kernels`, `bench models`, `bench load`; compare builds");
  const auto arguments = std::make_shared<Arguments>();
  add_model_arguments(*command, arguments->model);
  command->get_option("MODEL")->required(false);  // --list needs none
  add_auto_switches(*command, arguments->switches, "baseline");
  command->add_option("--batch", arguments->request.images, "samples in one forward pass")
      ->check(whole_number(1, 4096))
      ->capture_default_str();
  add_size_options(*command, arguments->request, arguments->size);
  add_pass_option(*command, arguments->pass);
  command->add_option("--trials", arguments->protocol.trials, "timed passes")
      ->check(whole_number(1, 1'000'000))
      ->capture_default_str();
  command->add_option("--max-seconds", arguments->protocol.max_seconds, "time after which no more trials begin")
      ->check(real_number(1.0, 86'400.0))
      ->capture_default_str();
  command->add_flag("--first-step", arguments->first_step,
                    "also time requests of new shapes up to their first finished pass, the weights being there");
  command->add_flag("--cold", arguments->cold,
                    "also time passes (or kernels) before each of which the caches are filled with other data");
  command
      ->add_option(
          "--turns", arguments->turns,
          "of the suite `kernels`: turns that each benchmark takes with its yardstick, for a machine whose speed "
          "changes; 1 measures yardsticks by themselves")
      ->check(whole_number(1, 1000))
      ->capture_default_str();
  command->add_option("--filter", arguments->filter, "of a suite, only names that match this regular expression")
      ->type_name("REGEX");
  command->add_flag("--list", arguments->list, "the names of the suites' benchmarks, and no more");
  command->add_option("--save", arguments->save, "result file to write (schema headroom.result/1)")
      ->check(written_as({".json"}))
      ->type_name("FILE");
  command->add_flag("--json", arguments->as_json, "print the result file");
  add_judging_options(*command, arguments->judging);
  command->footer(
      "Example: headroom bench models/fashion-flux --batch 20 --opt lossless --save result.json\n"
      "         headroom bench kernels --filter 'linear bf16' --threads 2\n"
      "         headroom bench load --device cuda\n"
      "         headroom bench fashion-flux --against build/base/headroom --threshold 3%\n"
      "Exit codes: 0 ok, 3 something regressed or a budget was missed, 4 inconclusive.");
  command->callback([arguments, command, &exit_code] { exit_code = bench_or_judge(*arguments, *command); });
}

}  // namespace headroom
