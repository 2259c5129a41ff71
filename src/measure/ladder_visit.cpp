// The visits of a ladder's rungs in this process: the pipeline compiled as the rung says, generations timed, and at the
// first visit what a rung needs in memory and how good its images are.

#include <algorithm>
#include <memory>
#include <utility>

#include "base/divide_up.hpp"
#include "base/error.hpp"
#include "base/out_of_memory.hpp"
#include "measure/describe.hpp"
#include "measure/generation.hpp"
#include "measure/judge.hpp"
#include "measure/ladder.hpp"
#include "measure/machine.hpp"
#include "measure/quality.hpp"
#include "measure/stages.hpp"

namespace headroom {
namespace {

class Visitor {
 public:
  Visitor(const Pipeline& pipeline, Backend& backend, const LadderOptions& options, std::int64_t process,
          LadderObserver observer)
      : pipeline_(pipeline),
        backend_(backend),
        options_(options),
        process_(process),
        observer_(std::move(observer)),
        weights_(backend, pipeline.components()) {
    options_.request.images = images_of(options_.request, pipeline);
    if (options_.quality_images > 0) open_judge();
  }

  void run_round(Ladder& ladder, std::int64_t round, std::span<const std::size_t> rungs) {
    visit_baseline(ladder, round);
    for (const std::size_t i : rungs) visit(ladder, i, round);
    visit_baseline(ladder, round + 1);
  }

 private:
  void open_judge() {
    const bool on_cpu = backend_.properties().target.device == DeviceKind::kCpu;
    if (!on_cpu) judge_backend_ = make_backend(DeviceKind::kCpu);
    judge_ = pipeline_.open_judge(on_cpu ? backend_ : *judge_backend_);
    if (options_.request.token_rows != 0 || options_.request.token_columns != 0)
      fail_usage("--quality judges images of the model's own size; leave out --token-rows and --token-columns");
  }

  bool makes_images() const { return pipeline_.obstacle_to_images().empty(); }
  bool judges_quality() const { return makes_images() && !pipeline_.has_random_weights(); }

  /// Once in a round and process.
  void visit_baseline(Ladder& ladder, std::int64_t round) {
    if (std::exchange(baseline_round_, round) != round) visit(ladder, 0, round);
  }

  void visit(Ladder& ladder, std::size_t i, std::int64_t round) {
    Rung& rung = ladder.rungs[i];
    progress_ = {.rung = rung.name,
                 .round = round,
                 .rung_number = static_cast<std::int64_t>(i) + 1,
                 .rungs = std::ssize(ladder.rungs)};
    RequestOptions request = options_.request;
    request.switches = rung.switches;
    request.drops_other_weights = true;
    request.suggests_what_fits = i == 0;
    const bool is_first = rung.result.id.empty();
    std::vector<StageWork> work;
    try {
      work = measure(ladder, i, round, request);
    } catch (const OutOfMemory& error) {
      if (i == 0 || !is_first) throw;  // nothing to hold the others against, or it did fit before
      leave_out_of_memory(rung, request, error.what());
    }
    if (is_first && options_.floors) add_floors(rung.result.stages, work, backend_);
    if (observer_.on_visited) observer_.on_visited();
  }

  /// Gives what the stages ran.
  std::vector<StageWork> measure(Ladder& ladder, std::size_t i, std::int64_t round, const RequestOptions& request) {
    Rung& rung = ladder.rungs[i];
    Generator generator(pipeline_, backend_, weights_, request);
    backend_.release_unused();  // what the rung before and loading took, so that this one's memory is told alone

    const bool is_first = rung.result.id.empty();
    if (is_first) describe(rung, generator.compiled());
    if (is_first && becomes_another(rung, ladder)) return {};
    const std::int64_t steps = generator.request().calls();
    progress_.steps_total =
        GenerationTimer(backend_, options_.warmup_steps, false).generations_for(generator, options_.min_trials) *
            steps +
        (is_first ? quality_steps(generator) : 0);
    HostTensor pixels;
    const GenerationTimes times = time_generations(generator, pixels);
    if (is_first) {
      rung.result.computed_share = times.computed_share;
      add_plan_and_memory(rung.result, ladder.plans, generator, weights_, backend_);
      if (i == 0) baseline_pixels_ = pixels;
      judge_images(rung, pixels, i != 0);
      if (judge_) judge(rung, generator, /*is_baseline=*/i == 0);
      if (observer_.on_pixels && pixels.numel() > 0) observer_.on_pixels(rung, pixels);
    } else if (i == 0 && baseline_pixels_.numel() == 0) {
      baseline_pixels_ = pixels;  // the ladder goes on in another process
    }
    add(rung, times, round);
    return work_of_stages(generator);
  }

  /// In place of what was measured, had it fitted.
  void leave_out_of_memory(Rung& rung, const RequestOptions& request, const std::string& reason) const {
    rung.result = {};
    describe(rung, compile_denoise(pipeline_, pipeline_.resolve(request), rung.switches, backend_.properties().target));
    rung.result.tags.emplace_back(kOutOfMemoryTag);
    rung.result.unsettled = reason;
  }

  void add(Rung& rung, const GenerationTimes& times, std::int64_t round) const {
    const auto add_series = [&](const std::string& what, Trials trials) {
      if (trials.wall_ms.empty()) return;
      trials.process = process_;
      trials.round = round;
      add_visit(rung.result, what, trials);
    };
    add_series("step", times.steps);
    add_series("image", times.images);
    add_series("prologue", times.prologues);
    for (const StageTimes& stage : times.stages) add_series(stage.name, stage.runs);
  }

  /// Where all that a rung adds declines, it is the rung that has the same switches applied: visited already, as the
  /// first round goes up.
  bool becomes_another(Rung& rung, const Ladder& ladder) const {
    if (rung.switches.empty()) return false;
    for (const Rung& other : ladder.rungs) {
      if (&other == &rung || other.result.id.empty() || other.result.same_as ||
          other.result.configuration.applied != rung.result.configuration.applied)
        continue;
      rung.result.same_as = other.name;
      if (other.switches.empty()) add_psnr(rung, {});
      return true;
    }
    return false;
  }

  std::int64_t quality_steps(const Generator& generator) const {
    return divide_up(options_.quality_images, generator.request().images) * generator.request().calls();
  }

  void tick() {
    ++progress_.steps_done;
    if (observer_.on_progress) observer_.on_progress(progress_);
  }

  GenerationTimes time_generations(Generator& generator, HostTensor& pixels) {
    const std::vector<ImageRequest> requests =
        make_image_requests(pipeline_, 0, generator.request().images, options_.seed);
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

  void describe(Rung& rung, const Compiled& compiled) const {
    rung.result = begin_result(rung.switches, describe_request(pipeline_, options_.request), compiled,
                               pipeline_.denoiser().checkpoint, backend_);
    rung.result.id = rung.result.name = rung.name;
  }

  void add_psnr(Rung& rung, std::optional<double> db) const {
    if (judges_quality()) rung.result.quality.push_back(psnr_record("baseline, same seeds", db));
  }

  void judge_images(Rung& rung, const HostTensor& pixels, bool is_compared) const {
    if (!is_compared || !judges_quality() || baseline_pixels_.numel() == 0) return;
    const auto clamped = [](const HostTensor& tensor) {
      std::vector<float> values(tensor.as<float>().begin(), tensor.as<float>().end());
      for (float& value : values) value = std::clamp(value, -1.0F, 1.0F);
      return values;
    };
    add_psnr(rung, psnr_db(clamped(baseline_pixels_), clamped(pixels)));
  }

  void judge(Rung& rung, Generator& generator, bool is_baseline) {
    Judgement judgement = headroom::judge(*judge_, pipeline_, generator, options_.quality_images, options_.seed,
                                          [&](std::int64_t, double) { tick(); });
    const Judgement* const base = baseline_judgement_ ? &*baseline_judgement_ : nullptr;
    for (QualityRecord& record : quality_records(judgement, base)) rung.result.quality.push_back(std::move(record));
    if (is_baseline) baseline_judgement_ = std::move(judgement);
  }

  const Pipeline& pipeline_;
  Backend& backend_;
  LadderOptions options_;
  std::int64_t process_;
  LadderObserver observer_;
  WeightStore weights_;                     // of the rung being visited; what it shares with the one before stays
  std::unique_ptr<Backend> judge_backend_;  // where the images are not made on the CPU
  std::unique_ptr<ClassifierJudge> judge_;
  LadderProgress progress_;
  std::int64_t baseline_round_ = -1;  // of its last visit
  HostTensor baseline_pixels_;
  std::optional<Judgement> baseline_judgement_;  // absent where a ladder goes on in another process
};

}  // namespace

RoundRun run_rounds_here(const Pipeline& pipeline, Backend& backend, const LadderOptions& options, std::int64_t process,
                         const LadderObserver& observer) {
  const auto visitor = std::make_shared<Visitor>(pipeline, backend, options, process, observer);
  return [visitor](Ladder& ladder, std::int64_t round, std::span<const std::size_t> rungs) {
    visitor->run_round(ladder, round, rungs);
  };
}

}  // namespace headroom
