#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "api/impl.hpp"
#include "base/error.hpp"
#include "base/text/json.hpp"
#include "kernels/core/generated_kernels.hpp"
#include "measure/protocol/ladder.hpp"
#include "measure/results/describe.hpp"
#include "measure/work/bench.hpp"
#include "measure/work/ladder_subject.hpp"
#include "measure/work/plan_text.hpp"

namespace headroom::v1 {

/// A model on a device, and the request for it.
struct MeasuredOn {
  Backend& backend;
  OpenedModel model;
  headroom::ImageSize size;
  headroom::RequestOptions request;

  MeasuredOn(const Device& device, const Work& work)
      : backend(device.impl_->here()),
        model(open_model(work.model, {.random_seed = work.options.random_seed}, /*must_be_pipeline=*/false,
                         [&](const Checkpoint& checkpoint) { return baseline_on(backend, work.options, checkpoint); })),
        size{.height = count("height", work.height), .width = count("width", work.width)},
        request{.images = work.batch,
                .text_tokens = count("text_tokens", work.text_tokens),
                .steps = count("steps", work.steps),
                .guidance_scale = work.guidance_scale,
                .true_cfg_scale = work.true_cfg_scale,
                .switches = {}} {}

  [[nodiscard]] DeviceTarget target() const { return backend.properties().target; }
  [[nodiscard]] SwitchSet on_device(std::string_view switches) const {
    return SwitchSet::parse(switches).for_target(target());
  }
  [[nodiscard]] bool makes_requests(const std::string& pass, bool by_default) const {
    return pass == kWholeRequest || (by_default && pass.empty() && model.pipeline != nullptr);
  }
};

namespace {

void require_batch(const Work& work, std::int64_t least) {
  if (work.batch < least) fail_usage("batch is {}, expected at least {}", work.batch, least);
}

std::string json_text(const ResultFile& file) { return dump_json(to_json(file), 2); }

}  // namespace

Report bench(const Device& device, const Work& work, std::string_view switches, const BenchOptions& options,
             const ProgressObserver& observer) {
  return translated([&] {
    require_batch(work, 1);
    if (options.trials < 1) fail_usage("trials is {}, expected at least 1", options.trials);
    const bool is_request = work.pass == kWholeRequest;
    if (options.floors && !is_request) fail_usage("floors are of whole requests: the pass {}", kWholeRequest);
    if (is_request && (options.cold || options.first_step))
      fail_usage("cold and first_step are for one pass, and not for whole requests");
    check_clock();
    MeasuredOn on(device, work);
    if (is_request && !on.model.pipeline) fail_usage("{} makes no images by itself", on.model.network().name);
    const SwitchSet set = on.on_device(switches);
    on.request.switches = set;
    WeightStore weights(on.backend, on.model.components());
    headroom::BenchOptions how;
    how.cold = options.cold;
    how.first_step = options.first_step;
    how.floors = options.floors;
    how.protocol.trials = options.trials;
    how.protocol.max_seconds = options.max_seconds;
    const BenchObserver watch{.on_progress = [&](const TrialProgress& at) {
      if (observer) observer(at.warming_up ? "warm-up" : "trials", at.done, at.total);
    }};
    BenchReport report;
    if (is_request) {
      resolve_size(*on.model.pipeline, on.size, on.request);
      report = measure_requests(*on.model.pipeline, on.backend, weights, on.request, how, watch);
    } else {
      report = measure_pass(on.model, on.backend, weights, asked_passes(on.model, work.pass, on.request, on.size), set,
                            how, watch);
    }
    return Report{json_text(report.file), report.text.text(), std::move(report.warnings)};
  });
}

Report ladder(const Device& device, const Work& work, std::string_view switches, const LadderOptions& options,
              const ProgressObserver& observer) {
  return translated([&] {
    require_batch(work, 0);
    check_clock();
    MeasuredOn on(device, work);
    headroom::LadderOptions how;
    how.only_ends = options.only_ends;
    how.request = on.request;
    how.seed = options.seed;
    how.min_trials = options.trials;
    how.rounds = options.rounds;
    how.max_rounds = options.max_rounds != 0 ? options.max_rounds : 3 * options.rounds;
    how.floors = options.floors;
    how.quality_images = options.quality_images;
    how.prompts = options.prompts;
    const LadderSubject subject(on.model, on.backend, work.pass, on.size, how);
    how.switches = on.on_device(switches.empty() ? subject.default_switches(how.request) : std::string(switches));
    subject.check_switches(how.switches);
    Ladder climbed = make_ladder(how.switches, how.only_ends);
    const LadderObserver watch{.on_progress = [&](const LadderProgress& at) {
      if (observer) observer(fmt::format("round {}, {}", at.round + 1, at.rung), at.steps_done, at.steps_total);
    }};
    climb(climbed, how.rounds, how.max_rounds, subject.rounds(how, /*process=*/0, watch));
    return Report{json_text(to_results(climbed)), to_table(climbed).text(), {}};
  });
}

std::string plan_text(const Device& device, const Work& work, std::string_view switches, bool with_rejections) {
  return translated([&] {
    require_batch(work, 1);
    MeasuredOn on(device, work);
    const SwitchSet set = on.on_device(switches);
    on.request.switches = set;
    const bool is_request = on.makes_requests(work.pass, /*by_default=*/true);
    if (is_request && !on.model.pipeline) fail_usage("{} makes no images by itself", on.model.network().name);
    if (is_request) resolve_size(*on.model.pipeline, on.size, on.request);
    const CompileRequest compile_with =
        is_request ? whole_request(*on.model.pipeline, on.request, on.target())
                   : one_pass(asked_passes(on.model, work.pass, on.request, on.size)(0), on.target());
    const Compiled compiled = compile_with(set);
    return headroom::plan_text(compiled, set, {}, *on.backend.context<GeneratedKernels>(), with_rejections);
  });
}

}  // namespace headroom::v1
