#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "base/error.hpp"
#include "base/files/file.hpp"
#include "base/output.hpp"
#include "base/progress.hpp"
#include "base/text/json.hpp"
#include "cli/commands/asked_pass.hpp"
#include "cli/commands/bench.hpp"
#include "cli/table_output.hpp"
#include "measure/protocol/submissions.hpp"
#include "measure/results/describe.hpp"
#include "measure/results/timing.hpp"
#include "measure/statistics/statistics.hpp"
#include "measure/suites/benchmark_names.hpp"
#include "measure/tables/table.hpp"

namespace headroom {
namespace {

/// Times passes, emptying the caches before each.
Trials time_cold_passes(Backend& backend, Session& session, const Protocol& protocol) {
  CacheEvictor evictor(backend);
  return time_cold_submissions(
      backend, session.stream(), [&] { session.submit(); }, evictor, protocol);
}

void print_times(const ForwardPass& pass, const Machine& machine, const Result& result) {
  const Summary& statistics = result.trials[0].statistics;
  print_lines(fmt::format("{} {}, batch {}, {}: {} {} (n = {}, quartiles {} to {}), peak memory {}\n",
                          pass.component->name, pass.request.at("pass").get<std::string>(), pass.size.images,
                          shown_name(machine, result), format_ms(statistics.median), interval_or_reason(statistics),
                          statistics.n, format_ms(statistics.q1), format_ms(statistics.q3),
                          format_bytes(static_cast<std::uint64_t>(result.memory->peak_bytes.value_or(0)))));
  for (const TrialSeries& series : result.trials) {
    if (series.what != "cold") continue;
    const Summary& cold = series.statistics;
    print_lines(fmt::format("with cold caches: {} {}\n", format_ms(cold.median), interval_or_reason(cold)));
  }
}

/// A forward pass that is ready to run, with the time to prepare it.
struct ReadyPass {
  ForwardPass pass;
  Compiled compiled;
  std::unique_ptr<Session> session;
  double plan_ms = 0;  ///< building, optimizing and planning
  double load_ms = 0;  ///< weights that were not loaded yet
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

/// Milliseconds from a request of a new shape to its first finished pass, with the weights already loaded. Measures
/// three shapes, each a row smaller (or larger, if the image is too small).
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
  print_lines(fmt::format("planned in {}; {} of weights loaded in {} ({} GB/s); first pass after {} more\n",
                          format_ms(pass.plan_ms), format_bytes(weight_bytes), format_ms(pass.load_ms),
                          format_significant(static_cast<double>(weight_bytes) / pass.load_ms * 1e-6),
                          format_ms(first_ms)));
  if (!first_steps.wall_ms.empty())
    print_lines(fmt::format("a request of a new shape, weights in place: first pass finished after {}\n",
                            format_ms(median(first_steps.wall_ms))));
}

}  // namespace

void warn_if_unsettled(const Log& log, const Result& result) {
  if (const std::optional<std::string> why = why_unsettled(result))
    log.warning("the times are unsettled, and nothing should be concluded from them: {}", *why);
}

void print_memory(const MemoryReport& memory) {
  const auto text = [](const std::optional<std::int64_t>& bytes) {
    return format_bytes(static_cast<std::uint64_t>(bytes.value_or(0)));
  };
  print_lines(fmt::format(
      "memory: {} of weights, {} of activations (scratch {}), {} of state, {} of inputs; {} held of {}, {} by others\n",
      text(memory.weights_bytes), text(memory.activations_bytes), text(memory.workspace_bytes),
      text(memory.state_bytes), text(memory.inputs_bytes), text(memory.reserved_bytes), text(memory.device_total_bytes),
      text(memory.untracked_bytes)));
}

void show_trial(Progress& progress, const TrialProgress& at, const Protocol& protocol) {
  if (at.warming_up)
    progress.begin("measuring", protocol.trials);
  else
    progress.set(at.done);
}

void bench_pass(const BenchArguments& arguments) {
  const Log log(arguments.model.quiet);
  const SwitchRequest asked = arguments.switches.request();
  const Engine engine = open_network(arguments.model);
  RequestOptions request = arguments.request;
  request.switches = asked.fixed;
  for (const IdleOption& idle : idle_of_pass(engine, arguments.pass, request, arguments.size))
    fail_usage("{}", sentence_of(idle));
  const PassMaker make = asked_passes(engine, arguments.pass, request, arguments.size);
  ForwardPass asked_pass = make(0);
  const ChosenSwitches chosen =
      choose_switches(asked, arguments.switches, *engine.backend, {.forward = asked_pass, .denoise = {}}, log);
  const SwitchSet& switches = chosen.set;
  const ReadyPass ready = prepare(engine, std::move(asked_pass), switches);
  const ForwardPass& pass = ready.pass;
  const Compiled& compiled = ready.compiled;
  Session& session = *ready.session;
  WithoutEffect(log, arguments.switches).say(compiled.declined);
  const double start = steady_clock_ms();
  session.run();
  const double first_ms = steady_clock_ms() - start;
  report_replay_obstacle(log, session);

  Protocol protocol = arguments.protocol;
  protocol.gpu_pci_bus_id = pci_bus_id_of(*engine.backend);
  std::optional<Progress> progress(std::in_place, "measuring", protocol.trials, arguments.model.quiet);
  const Trials trials = measure_callable([&] { session.run(); }, protocol,
                                         [&](const TrialProgress& at) { show_trial(*progress, at, protocol); });
  progress.reset();  // before anything is printed

  const Trials first_steps = arguments.first_step ? time_first_steps(engine, make, switches) : Trials{};

  ResultFile file = begin_result_file();
  Result result = begin_result(switches, describe_pass(pass), compiled, pass.component->checkpoint, *engine.backend);
  add_plan_and_memory(result, file.plans, session, *engine.weights, *engine.backend);
  chosen.describe(result.configuration);
  result.trials.push_back(make_series("forward", trials));
  if (arguments.cold)
    result.trials.push_back(make_series("cold", time_cold_passes(*engine.backend, session, protocol)));
  if (arguments.first_step) {
    result.trials.push_back(make_series("plan", Trials{.wall_ms = {ready.plan_ms}}));
    result.trials.push_back(make_series("load", Trials{.wall_ms = {ready.load_ms}}));
    result.trials.push_back(make_series("first_run", Trials{.wall_ms = {first_ms}}));
    result.trials.push_back(make_series("first_step", first_steps));
  }
  file.results.push_back(result);
  if (!arguments.save.empty()) write_results(arguments.save, file);
  if (arguments.as_json) {
    print_out("{}\n", dump_json(to_json(file), 2));
    return;
  }
  print_times(pass, file.machine, result);
  print_memory(*result.memory);
  print_start(ready, first_ms, engine.weights->bytes(), first_steps);
  warn_if_unsettled(log, result);
  if (!trials.warmup_stable) log.warning("times had not settled after {} warm-up calls", trials.warmup);
}

}  // namespace headroom
