#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "base/files/file.hpp"
#include "base/output.hpp"
#include "base/progress.hpp"
#include "base/text/format.hpp"
#include "base/text/json.hpp"
#include "cli/commands/bench.hpp"
#include "cli/table_output.hpp"
#include "measure/protocol/generation.hpp"
#include "measure/protocol/stages.hpp"
#include "measure/results/describe.hpp"
#include "measure/suites/benchmark_names.hpp"
#include "measure/tables/table.hpp"

namespace headroom {
namespace {

void print_times(const Machine& machine, const Result& result, std::int64_t images) {
  const Summary& image = series_of(result, "image").statistics;
  const std::string name = shown_name(machine, result);
  print_lines(fmt::format(
      "{}, {} at once, {}: {} {} an image (n = {}, quartiles {} to {}), {} a step, peak memory {}\n",
      result.subject.name, format_count(images, "image"), name, format_ms(image.median), interval_or_reason(image),
      image.n, format_ms(image.q1), format_ms(image.q3), format_ms(series_of(result, "step").statistics.median),
      format_bytes(static_cast<std::uint64_t>(result.memory->peak_bytes.value_or(0)))));
  const std::pair<std::string, const Result*> one[] = {{name, &result}};
  if (const std::optional<Table> stages = to_stage_table(one)) print_tables(*stages);
}

/// The result of the timing, and its plan.
ResultFile to_file(const Engine& engine, const Generator& generator, const RequestOptions& options,
                   const ChosenSwitches& chosen, const GenerationTimes& times) {
  ResultFile file = begin_result_file();
  Result result = begin_result(options.switches, describe_request(*engine.pipeline, options), generator.compiled(),
                               engine.network().checkpoint, *engine.backend);
  chosen.describe(result.configuration);
  add_plan_and_memory(result, file.plans, generator, *engine.weights, *engine.backend);
  result.computed_share = times.computed_share;
  result.trials.push_back(make_series("image", times.images));  // first, because budgets judge the first series
  result.trials.push_back(make_series("step", times.steps));
  add_series_of_parts(result, times);
  file.results.push_back(std::move(result));
  return file;
}

}  // namespace

void bench_requests(const BenchArguments& arguments) {
  const Log log(arguments.model.quiet);
  const SwitchRequest asked = arguments.switches.request();
  if (arguments.cold || arguments.first_step)
    fail_usage("--cold and --first-step are for one pass, and not for whole requests");
  const Engine engine = open_engine(arguments.model);
  const Pipeline& pipeline = *engine.pipeline;
  RequestOptions options = arguments.request;
  options.switches = asked.fixed;
  resolve_size(pipeline, arguments.size, options);
  const ChosenSwitches chosen =
      choose_switches(asked, arguments.switches, *engine.backend, make_auto_request(pipeline, options), log);
  options.switches = chosen.set;
  auto generator = std::make_unique<Generator>(pipeline, *engine.backend, *engine.weights, options);
  WithoutEffect(log, arguments.switches).say(generator->compiled().declined);
  report_notes(log, generator->compiled());

  Protocol protocol = arguments.protocol;
  protocol.gpu_pci_bus_id = pci_bus_id_of(*engine.backend);
  const std::vector<ImageRequest> images = make_image_requests(pipeline, 0, generator->request().images, /*seed=*/0);
  std::optional<Progress> progress(std::in_place, "measuring", protocol.trials, arguments.model.quiet);
  const GenerationTimes times = time_requests(*generator, images, *engine.backend, protocol,
                                              [&](const TrialProgress& at) { show_trial(*progress, at, protocol); });
  progress.reset();  // before anything is printed

  report_replay_obstacle(log, generator->session());

  ResultFile file = to_file(engine, *generator, options, chosen, times);
  Result& result = file.results.front();
  if (arguments.floors) {
    const std::vector<StageWork> work = work_of_stages(*generator);
    generator.reset();  // frees its memory for the next measurement
    add_floors(result.stages, work, *engine.backend);
  }
  if (!arguments.save.empty()) write_results(arguments.save, file);
  if (arguments.as_json) {
    print_out("{}\n", dump_json(to_json(file), 2));
    return;
  }
  print_times(file.machine, result, std::ssize(images));
  print_memory(*result.memory);
  warn_if_unsettled(log, result);
  if (!times.images.warmup_stable)
    log.warning("times had not settled after {} of warm-up", format_count(times.images.warmup, "request"));
}

}  // namespace headroom
