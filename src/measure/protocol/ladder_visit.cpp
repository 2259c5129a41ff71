// The visits of a ladder that measures a pipeline. Each visit compiles the pipeline for the rung and times
// generations. The first visit also measures memory and the quality of the images.

#include <algorithm>
#include <memory>
#include <utility>

#include "base/error.hpp"
#include "base/tensors/divide_up.hpp"
#include "measure/protocol/generation.hpp"
#include "measure/protocol/ladder_visitor.hpp"
#include "measure/quality/judge.hpp"
#include "measure/quality/picture_comparison.hpp"
#include "measure/quality/quality.hpp"
#include "measure/results/describe.hpp"

namespace headroom {
namespace {

class GenerationVisitor : public RungVisitor {
 public:
  GenerationVisitor(const Pipeline& pipeline, Backend& backend, const LadderOptions& options, std::int64_t process,
                    LadderObserver observer)
      : RungVisitor(backend, pipeline.components(), options, process, std::move(observer)), pipeline_(pipeline) {
    options_.request.images = images_of(options_.request, pipeline);
    if (!options_.prompts.empty() && pipeline.text_readers().empty())
      fail_usage("--prompts: {} reads no text", pipeline.name());
    if (options_.quality_images == 0) return;
    if (const std::string obstacle = pipeline.obstacle_to_images(); !obstacle.empty())
      fail_usage("--quality judges images, and there are none: {}", obstacle);
    if (pipeline.has_random_weights())
      fail_usage("--quality judges trained weights, and those of {} are random", pipeline.name());
    if (!pipeline.labels().empty() && options_.prompts.empty()) open_judge();
  }

 private:
  void open_judge() {
    const bool on_cpu = backend_.properties().target.device == DeviceKind::kCpu;
    if (!on_cpu) judge_backend_ = make_backend(DeviceKind::kCpu);
    judge_ = pipeline_.open_judge(on_cpu ? backend_ : *judge_backend_);
    const Request asked = pipeline_.resolve(options_.request), own = pipeline_.resolve({});
    if (asked.token_rows != own.token_rows || asked.token_columns != own.token_columns)
      fail_usage(
          "--quality judges images of the model's own size: leave out --height and --width, or --token-rows and "
          "--token-columns");
  }

  bool makes_images() const { return pipeline_.obstacle_to_images().empty(); }
  bool judges_quality() const { return makes_images() && !pipeline_.has_random_weights(); }

  std::vector<StageWork> measure(Ladder& ladder, std::size_t i, std::int64_t round) override {
    Rung& rung = ladder.rungs[i];
    RequestOptions request = options_.request;
    request.switches = rung.switches;
    request.drops_other_weights = true;
    request.suggests_what_fits = i == 0;
    Generator generator(pipeline_, backend_, weights_, request);
    backend_.release_unused();  // frees memory of the previous rung and of loading, which is not this rung's

    const bool is_first = is_first_visit(rung);
    if (is_first) {
      describe(rung, describe_request(pipeline_, options_.request), generator.compiled(),
               pipeline_.denoiser().checkpoint);
      if (becomes_another(rung, ladder)) return {};
    }
    // The ladder may be continued by another process, which has no images of the baseline yet.
    const bool is_reference = i == 0 && reference_.empty() && (is_first || has_unvisited(ladder));
    const bool shows_images = judges_quality() && (is_first || is_reference);
    expect_steps(
        GenerationTimer(backend_, options_.warmup_steps, false).generations_for(generator, options_.min_trials) *
            generator.request().calls() +
        (shows_images ? quality_steps(generator) : 0));
    HostTensor pixels;
    const GenerationTimes times = time_generations(generator, pixels);
    if (is_first) {
      rung.result.computed_share = times.computed_share;
      add_plan_and_memory(rung.result, ladder.plans, generator, weights_, backend_);
      if (observer_.on_pixels && pixels.numel() > 0) observer_.on_pixels(rung, pixels);
    }
    if (shows_images) {
      std::vector<QualityRecord> quality = judge_images(generator, pixels, is_reference);
      if (is_first) rung.result.quality = std::move(quality);
    }
    add(rung, times, round);
    return work_of_stages(generator);
  }

  Result describe_unmeasured(const SwitchSet& switches) const override {
    const Compiled compiled =
        compile_denoise(pipeline_, pipeline_.resolve(options_.request), switches, backend_.properties().target);
    return begin_result(switches, describe_request(pipeline_, options_.request), compiled,
                        pipeline_.denoiser().checkpoint, backend_);
  }

  std::vector<QualityRecord> quality_of_baseline() const override {
    if (!judges_quality() || reference_.empty()) return {};
    PictureComparison comparison;
    for (const HostTensor& batch : reference_) comparison.add(batch, batch);
    return comparison.records();
  }

  void add(Rung& rung, const GenerationTimes& times, std::int64_t round) const {
    add_trials(rung, "step", times.steps, round);
    add_trials(rung, "image", times.images, round);
    add_trials(rung, "prologue", times.prologues, round);
    for (const StageTimes& stage : times.stages) add_trials(rung, stage.name, stage.runs, round);
  }

  std::int64_t quality_steps(const Generator& generator) const {
    return divide_up(options_.quality_images, generator.request().images) * generator.request().calls();
  }

  GenerationTimes time_generations(Generator& generator, HostTensor& pixels) {
    const std::vector<ImageRequest> requests =
        picture_requests(pipeline_, options_.prompts, 0, generator.request().images, options_.seed);
    GenerationTimer timer(backend_, options_.warmup_steps, false);
    const auto is_precise_enough = [&] {
      return options_.precision > 0 && is_precise(timer.times().steps.wall_ms, options_.precision);
    };
    do {
      HostTensor made = timer.generate(generator, requests, [&] { tick(); });
      if (pixels.numel() == 0 && makes_images()) pixels = std::move(made);
    } while (!timer.has_steps(options_.min_trials) && !is_precise_enough());
    return timer.take();
  }

  /// Judges the first batch, or the images that --quality asks for: their distance from the baseline's images (kept
  /// in `reference_`), and the classifier's figures.
  std::vector<QualityRecord> judge_images(Generator& generator, const HostTensor& first_batch, bool is_reference) {
    PictureComparison comparison;
    std::vector<HostTensor> batches;  // batches that are used after all are made
    std::vector<std::int64_t> labels;
    std::size_t number = 0;
    const auto look_at = [&](std::span<const ImageRequest> requests, const HostTensor& pixels) {
      for (const ImageRequest& request : requests) labels.push_back(request.label);
      if (!is_reference) comparison.add(reference_.at(number++), pixels);
      if (is_reference || judge_) batches.push_back(pixels);
    };
    if (options_.quality_images > 0)
      make_pictures(pipeline_, generator, options_.prompts, options_.quality_images, options_.seed, look_at,
                    [&](std::int64_t, double) { tick(); });
    else
      look_at({}, first_batch);
    std::vector<QualityRecord> records;
    if (!is_reference) records = comparison.records();
    if (judge_)
      for (QualityRecord& record : ask_judge(join_pictures(batches), labels, is_reference))
        records.push_back(std::move(record));
    if (is_reference) reference_ = std::move(batches);
    return records;
  }

  std::vector<QualityRecord> ask_judge(const HostTensor& pixels, std::span<const std::int64_t> labels,
                                       bool is_reference) {
    Judgement judgement = judge(*judge_, pixels, labels);
    const Judgement* const base = !is_reference && baseline_judgement_ ? &*baseline_judgement_ : nullptr;
    std::vector<QualityRecord> records = quality_records(judgement, base);
    if (is_reference) baseline_judgement_ = std::move(judgement);
    return records;
  }

  const Pipeline& pipeline_;
  std::unique_ptr<Backend> judge_backend_;  // if the images are not made on the CPU
  std::unique_ptr<ClassifierJudge> judge_;
  std::vector<HostTensor> reference_;            // the baseline's images, batch by batch
  std::optional<Judgement> baseline_judgement_;  // absent if another process continues the ladder
};

}  // namespace

RoundRun run_rounds_here(const Pipeline& pipeline, Backend& backend, const LadderOptions& options, std::int64_t process,
                         const LadderObserver& observer) {
  const auto visitor = std::make_shared<GenerationVisitor>(pipeline, backend, options, process, observer);
  return [visitor](Ladder& ladder, std::int64_t round, std::span<const std::size_t> rungs) {
    visitor->run_round(ladder, round, rungs);
  };
}

}  // namespace headroom
