#include "measure/work/bench.hpp"

#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "backends/device.hpp"
#include "base/text/format.hpp"
#include "measure/protocol/generation.hpp"
#include "measure/protocol/stages.hpp"
#include "measure/protocol/submissions.hpp"
#include "measure/results/describe.hpp"
#include "measure/results/timing.hpp"
#include "measure/statistics/statistics.hpp"
#include "measure/suites/benchmark_names.hpp"
#include "pipelines/generator.hpp"
#include "run/fit.hpp"

namespace headroom {
namespace {

std::string bytes_text(const std::optional<std::int64_t>& bytes) {
  return format_bytes(static_cast<std::uint64_t>(bytes.value_or(0)));
}

std::string times_text(const ForwardPass& pass, const Machine& machine, const Result& result) {
  const Summary& statistics = result.trials[0].statistics;
  std::string text =
      fmt::format("{} {}, batch {}, {}: {} {} (n = {}, quartiles {} to {}), peak memory {}\n", pass.component->name,
                  pass.request.at("pass").get<std::string>(), pass.size.images, shown_name(machine, result),
                  format_ms(statistics.median), interval_or_reason(statistics), statistics.n, format_ms(statistics.q1),
                  format_ms(statistics.q3), bytes_text(result.memory->peak_bytes));
  for (const TrialSeries& series : result.trials)
    if (series.what == "cold")
      text += fmt::format("with cold caches: {} {}\n", format_ms(series.statistics.median),
                          interval_or_reason(series.statistics));
  return text;
}

std::string memory_text(const MemoryReport& memory) {
  return fmt::format(
      "memory: {} of weights, {} of activations (scratch {}), {} of state, {} of inputs; {} held of {}, {} by others\n",
      bytes_text(memory.weights_bytes), bytes_text(memory.activations_bytes), bytes_text(memory.workspace_bytes),
      bytes_text(memory.state_bytes), bytes_text(memory.inputs_bytes), bytes_text(memory.reserved_bytes),
      bytes_text(memory.device_total_bytes), bytes_text(memory.untracked_bytes));
}

/// Times passes, emptying the caches before each.
Trials time_cold_passes(Backend& backend, Session& session, const Protocol& protocol) {
  CacheEvictor evictor(backend);
  return time_cold_submissions(
      backend, session.stream(), [&] { session.submit(); }, evictor, protocol);
}

/// A forward pass that is ready to run, with the time to prepare it.
struct ReadyPass {
  ForwardPass pass;
  Compiled compiled;
  std::unique_ptr<Session> session = {};
  double plan_ms = 0;       ///< building, optimizing and planning
  double load_ms = 0;       ///< weights that were not loaded yet
  double first_run_ms = 0;  ///< of the first run

  [[nodiscard]] std::string text(std::size_t weight_bytes, const Trials& first_steps) const {
    std::string text =
        fmt::format("planned in {}; {} of weights loaded in {} ({} GB/s); first pass after {} more\n",
                    format_ms(plan_ms), format_bytes(weight_bytes), format_ms(load_ms),
                    format_significant(static_cast<double>(weight_bytes) / load_ms * 1e-6), format_ms(first_run_ms));
    if (!first_steps.wall_ms.empty())
      text += fmt::format("a request of a new shape, weights in place: first pass finished after {}\n",
                          format_ms(median(first_steps.wall_ms)));
    return text;
  }
};

ReadyPass compile_pass(Backend& backend, ForwardPass pass, const SwitchSet& switches) {
  const double start = steady_clock_ms();
  Compiled compiled = compile(pass, switches, backend.properties().target);
  return {.pass = std::move(pass), .compiled = std::move(compiled), .plan_ms = steady_clock_ms() - start};
}

void load(ReadyPass& ready, Backend& backend, WeightStore& weights, const SwitchSet& switches) {
  require_fit(ready.compiled, ready.pass, switches, weights, backend);
  const double start = steady_clock_ms();
  weights.load(*ready.compiled.program);
  ready.load_ms = steady_clock_ms() - start;
  ready.session = std::make_unique<Session>(ready.compiled.program, weights, backend);
  ready.pass.set_inputs(*ready.session);
}

/// Milliseconds from a request of a new shape to its first finished pass, with the weights already loaded. Measures
/// three shapes, each a row smaller (or larger, if the image is too small).
Trials time_first_steps(Backend& backend, WeightStore& weights, const PassMaker& make, const SwitchSet& switches) {
  constexpr int kShapes = 3;
  const std::int64_t step = make(0).size.token_rows > kShapes ? -1 : 1;
  Trials trials;
  for (int i = 1; i <= kShapes; ++i) {
    const double start = steady_clock_ms();
    ReadyPass ready = compile_pass(backend, make(i * step), switches);
    load(ready, backend, weights, switches);
    ready.session->run();
    trials.wall_ms.push_back(steady_clock_ms() - start);
  }
  return trials;
}

std::vector<std::string> warnings_of(const Result& result, bool is_warm, std::int64_t warmup, std::string_view calls) {
  std::vector<std::string> warnings;
  if (const std::optional<std::string> why = why_unsettled(result))
    warnings.push_back(fmt::format("the times are unsettled, and nothing should be concluded from them: {}", *why));
  if (!is_warm)
    warnings.push_back(fmt::format("times had not settled after {} of warm-up", format_count(warmup, calls)));
  return warnings;
}

template <class Callback, class... Arguments>
void tell(const Callback& callback, const Arguments&... arguments) {
  if (callback) callback(arguments...);
}

Protocol protocol_on(const Backend& backend, Protocol protocol) {
  protocol.gpu_pci_bus_id = pci_bus_id_of(backend);
  return protocol;
}

}  // namespace

BenchReport measure_pass(const OpenedModel& model, Backend& backend, WeightStore& weights, const PassMaker& make,
                         const SwitchSet& switches, const BenchOptions& options, const BenchObserver& observer) {
  ReadyPass ready = compile_pass(backend, make(0), switches);
  tell(observer.on_compiled, ready.compiled);
  load(ready, backend, weights, switches);
  Session& session = *ready.session;
  const double start = steady_clock_ms();
  session.run();
  ready.first_run_ms = steady_clock_ms() - start;

  const Protocol protocol = protocol_on(backend, options.protocol);
  const Trials trials = measure_callable([&] { session.run(); }, protocol,
                                         [&](const TrialProgress& at) { tell(observer.on_progress, at); });
  const Trials first_steps = options.first_step ? time_first_steps(backend, weights, make, switches) : Trials{};
  tell(observer.on_measured, session);

  ResultFile file = begin_result_file();
  Result result =
      begin_result(switches, describe_pass(ready.pass), ready.compiled, model.network().checkpoint, backend);
  add_plan_and_memory(result, file.plans, session, weights, backend);
  result.trials.push_back(make_series("forward", trials));
  if (options.cold) result.trials.push_back(make_series("cold", time_cold_passes(backend, session, protocol)));
  if (options.first_step) {
    result.trials.push_back(make_series("plan", Trials{.wall_ms = {ready.plan_ms}}));
    result.trials.push_back(make_series("load", Trials{.wall_ms = {ready.load_ms}}));
    result.trials.push_back(make_series("first_run", Trials{.wall_ms = {ready.first_run_ms}}));
    result.trials.push_back(make_series("first_step", first_steps));
  }
  BenchReport report;
  report.text.add(times_text(ready.pass, file.machine, result) + memory_text(*result.memory) +
                  ready.text(weights.bytes(), first_steps));
  report.warnings = warnings_of(result, trials.warmup_stable, trials.warmup, "call");
  file.results.push_back(std::move(result));
  report.file = std::move(file);
  return report;
}

BenchReport measure_requests(const Pipeline& pipeline, Backend& backend, WeightStore& weights,
                             const RequestOptions& request, const BenchOptions& options,
                             const BenchObserver& observer) {
  auto generator = std::make_unique<Generator>(pipeline, backend, weights, request);
  tell(observer.on_compiled, generator->compiled());
  const std::vector<ImageRequest> images = make_image_requests(pipeline, 0, generator->request().images, /*seed=*/0);
  const GenerationTimes times = time_requests(*generator, images, backend, protocol_on(backend, options.protocol),
                                              [&](const TrialProgress& at) { tell(observer.on_progress, at); });
  tell(observer.on_measured, generator->session());

  BenchReport report;
  report.file = begin_result_file();
  Result& result =
      report.file.results.emplace_back(begin_result(request.switches, describe_request(pipeline, request),
                                                    generator->compiled(), pipeline.denoiser().checkpoint, backend));
  add_plan_and_memory(result, report.file.plans, *generator, weights, backend);
  result.computed_share = times.computed_share;
  result.trials.push_back(make_series("image", times.images));  // first, because budgets judge the first series
  result.trials.push_back(make_series("step", times.steps));
  add_series_of_parts(result, times);
  if (options.floors) {
    const std::vector<StageWork> work = work_of_stages(*generator);
    generator.reset();  // frees its memory for the next measurement
    add_floors(result.stages, work, backend);
  }
  const Summary& image = series_of(result, "image").statistics;
  const std::string name = shown_name(report.file.machine, result);
  report.text.add(
      fmt::format("{}, {} at once, {}: {} {} an image (n = {}, quartiles {} to {}), {} a step, peak memory {}\n",
                  result.subject.name, format_count(std::ssize(images), "image"), name, format_ms(image.median),
                  interval_or_reason(image), image.n, format_ms(image.q1), format_ms(image.q3),
                  format_ms(series_of(result, "step").statistics.median), bytes_text(result.memory->peak_bytes)));
  const std::pair<std::string, const Result*> one[] = {{name, &result}};
  if (std::optional<Table> stages = to_stage_table(one)) report.text.add(std::move(*stages));
  report.text.add(memory_text(*result.memory));
  report.warnings = warnings_of(result, times.images.warmup_stable, times.images.warmup, "request");
  return report;
}

}  // namespace headroom
