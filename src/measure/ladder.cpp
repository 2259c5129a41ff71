#include "measure/ladder.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "base/divide_up.hpp"
#include "base/error.hpp"
#include "measure/describe.hpp"
#include "measure/generation.hpp"
#include "measure/judge.hpp"
#include "measure/machine.hpp"
#include "measure/quality.hpp"
#include "run/images.hpp"

namespace headroom {
namespace {

std::string rung_name(const SwitchSet& switches) {
  return switches.empty() ? "baseline" : fmt::format("{}", fmt::join(switches.names(), "+"));
}

class Climber {
 public:
  Climber(const Model& model, Backend& backend, const LadderOptions& options,
          const std::function<void(const LadderProgress&)>& on_progress)
      : model_(model),
        backend_(backend),
        options_(options),
        on_progress_(on_progress),
        weights_(backend, model.checkpoint) {
    options_.request.images = images_of(options_.request, model);
    if (options_.quality_images > 0 && !judges_quality())
      fail_usage("--quality needs a trained model with pixels and a classifier beside it, which {} is not", model.name);
    if (options_.quality_images > 0) {
      const bool on_cpu = backend.properties().target.device == DeviceKind::kCpu;
      if (!on_cpu) judge_backend_ = make_backend(DeviceKind::kCpu);
      judge_ = Judge::open(model.checkpoint.folder(), on_cpu ? backend : *judge_backend_);
    }
    if (options_.quality_images > 0 && (options_.request.token_rows != 0 || options_.request.token_columns != 0))
      fail_usage("--quality judges images of the model's own size; leave out --token-rows and --token-columns");
    if (options_.quality_images > 0 && !judge_)
      fail("{} has no folder `classifier`, so its images cannot be judged", model.name);
  }

  Ladder climb() {
    Ladder ladder;
    ladder.rungs = list_rungs(options_.switches, options_.only_ends);
    const std::size_t count = ladder.rungs.size();
    times_.resize(count);
    for (int round = 0; round < options_.rounds; ++round)
      for (std::size_t k = 0; k < count; ++k) {
        const std::size_t i = round % 2 == 0 ? k : count - 1 - k;
        progress_ = {.rung = ladder.rungs[i].name,
                     .round = round,
                     .rung_number = static_cast<std::int64_t>(i) + 1,
                     .rungs = static_cast<std::int64_t>(count)};
        measure(i, ladder);
      }
    for (std::size_t i = 0; i < count; ++i) summarize_trials(ladder.rungs[i], times_[i]);
    summarize_factors(ladder);
    return ladder;
  }

 private:
  bool judges_quality() const {
    return model_.pixels.has_value() && model_.prompts.has_value() && !model_.checkpoint.is_random();
  }

  void measure(std::size_t i, Ladder& ladder) {
    Rung& rung = ladder.rungs[i];
    GeneratorOptions request = options_.request;
    request.switches = rung.switches;
    request.drops_other_weights = true;
    Generator generator(model_, backend_, weights_, request);
    backend_.release_unused();  // what the rung before and loading took, so that this one's memory is told alone

    const bool first = progress_.round == 0;
    const std::int64_t steps = generator.request().steps;
    const std::int64_t wanted = std::max<std::int64_t>(steps, options_.warmup_steps + options_.min_trials);
    progress_.steps_total = divide_up(wanted, steps) * steps + (first ? quality_steps(generator) : 0);
    time_generations(generator, rung, i);
    if (!first) return;
    rung.denoise = generator.request();
    describe(rung, generator, weights_, ladder);
    compare_with_baseline(rung, ladder.rungs.front());
    if (options_.quality_images > 0) judge(rung, generator);
  }

  static void summarize_trials(Rung& rung, const GenerationTimes& times) {
    add_series(rung.result, times);
    const double prologue_ms =
        times.prologues.wall_ms.empty() ? 0 : series_of(rung.result, "prologue").statistics.median;
    const auto image_ms = [&](double step_ms) {
      return (prologue_ms + step_ms * static_cast<double>(rung.denoise.steps)) /
             static_cast<double>(rung.denoise.images);
    };
    const Summary& step = rung.result.trials[0].statistics;
    rung.image_ms = image_ms(step.median);
    if (step.median_interval)
      rung.image_interval_ms = Interval{image_ms(step.median_interval->low), image_ms(step.median_interval->high)};
  }

  std::int64_t quality_steps(const Generator& generator) const {
    return divide_up(options_.quality_images, generator.request().images) * generator.request().steps;
  }

  void tick() {
    ++progress_.steps_done;
    if (on_progress_) on_progress_(progress_);
  }

  void time_generations(Generator& generator, Rung& rung, std::size_t i) {
    const std::vector<ImageRequest> requests =
        make_image_requests(model_, 0, generator.request().images, options_.seed);
    GenerationTimer timer(backend_, options_.warmup_steps, false);
    const auto is_precise_enough = [&] {
      return options_.precision > 0 && is_precise(timer.times().steps.wall_ms, options_.precision);
    };
    do {
      const HostTensor latents = timer.generate(generator, requests, [&] { tick(); });
      if (rung.pixels.numel() == 0 && model_.pixels) rung.pixels = unpatch(latents, format_of(generator.request()));
    } while (timer.steps_made() < options_.warmup_steps + options_.min_trials && !is_precise_enough());
    times_[i].append(timer.take());
  }

  /// Of a model that has pixels.
  const PixelFormat& pixels() const {
    HR_CHECK(model_.pixels.has_value());
    return *model_.pixels;
  }

  /// The model's pixels, as many as the request asks for.
  PixelFormat format_of(const DenoiseRequest& request) const {
    PixelFormat format = pixels();
    format.height = request.token_rows * format.patch;
    format.width = request.token_columns * format.patch;
    return format;
  }

  void describe(Rung& rung, const Generator& generator, const WeightStore& weights, Ladder& ladder) const {
    const DenoiseRequest& request = generator.request();
    PlanRecord plan = describe_plan(*generator.compiled().program);
    rung.result.id = rung.name;
    rung.result.name = rung.name;
    const std::int64_t steps = options_.request.steps != 0 ? options_.request.steps : model_.default_steps;
    rung.result.subject = describe_denoise(model_, request, steps, generator.guidance_scale());
    const BuildInfo build = describe_machine().build.value_or(BuildInfo{});
    rung.result.source = {.name = "headroom", .version = build.version};
    rung.result.configuration = describe_configuration(rung.switches, generator.compiled(), backend_);
    rung.result.memory = describe_memory(generator.session(), weights, backend_);
    if (model_.checkpoint.is_random()) rung.result.tags.emplace_back("random_weights");
    rung.result.plan = plan_id(plan);
    ladder.plans.try_emplace(*rung.result.plan, std::move(plan));
  }

  void compare_with_baseline(Rung& rung, const Rung& baseline) const {
    if (!judges_quality() || &rung == &baseline) return;
    const auto clamped = [](const HostTensor& pixels) {
      std::vector<float> values(pixels.as<float>().begin(), pixels.as<float>().end());
      for (float& value : values) value = std::clamp(value, -1.0F, 1.0F);
      return values;
    };
    rung.result.quality.push_back(
        psnr_record("baseline, same seeds", psnr_db(clamped(baseline.pixels), clamped(rung.pixels))));
  }

  void judge(Rung& rung, Generator& generator) {
    const std::int64_t batch = generator.request().images;
    const std::int64_t count = (options_.quality_images + batch - 1) / batch * batch;
    HostTensor made_pixels(DType::kF32, {count, pixels().channels, pixels().height, pixels().width});
    std::vector<std::int64_t> labels;
    for (std::int64_t first = 0; first < count; first += batch) {
      const std::vector<ImageRequest> requests = make_image_requests(model_, first, batch, options_.seed);
      for (const ImageRequest& request : requests) labels.push_back(request.label);
      const HostTensor made = unpatch(generator.generate(requests, [&](std::int64_t, double) { tick(); }), pixels());
      std::ranges::copy(made.as<float>(), made_pixels.as<float>().begin() + first * (made.numel() / batch));
    }
    const Judgement judgement = judge_->judge(made_pixels, labels);
    rung.result.quality.push_back({.metric = "accuracy",
                                   .against = fmt::format("labels of {} images", count),
                                   .value = judgement.accuracy.value,
                                   .interval = judgement.accuracy.interval,
                                   .note = {}});
    rung.result.quality.push_back({.metric = "frechet_distance",
                                   .against = fmt::format("classifier features of the test set, {} images", count),
                                   .value = judgement.frechet_distance,
                                   .interval = {},
                                   .note = {}});
  }

  static void summarize_factors(Ladder& ladder) {
    const double baseline = ladder.rungs.front().image_ms;
    for (const Rung& rung : ladder.rungs)
      if (!rung.cumulative && !rung.switches.empty()) ladder.product_of_singles *= baseline / rung.image_ms;
    ladder.combined = baseline / ladder.rungs.back().image_ms;
  }

  const Model& model_;
  Backend& backend_;
  LadderOptions options_;
  const std::function<void(const LadderProgress&)>& on_progress_;
  WeightStore weights_;                     // of the rung being measured; what it shares with the one before stays
  std::unique_ptr<Backend> judge_backend_;  // where the images are not made on the CPU
  std::unique_ptr<Judge> judge_;
  LadderProgress progress_;
  std::vector<GenerationTimes> times_;  // by rung, over all rounds
};

}  // namespace

std::int64_t images_of(const GeneratorOptions& request, const Model& model) {
  if (request.images != 0) return request.images;
  return model.prompts ? static_cast<std::int64_t>(model.prompts->labels.size()) : 1;
}

std::vector<Rung> list_rungs(const SwitchSet& switches, bool only_ends) {
  std::vector<Rung> rungs;
  const auto add = [&](const SwitchSet& set, bool cumulative) {
    rungs.emplace_back();
    rungs.back().name = rung_name(set);
    rungs.back().switches = set;
    rungs.back().cumulative = cumulative;
  };
  add({}, false);
  if (only_ends) {
    add(switches, false);
    return rungs;
  }
  const std::vector<SwitchSet> singles = switches.singles();
  for (const SwitchSet& single : singles) add(single, false);
  SwitchSet so_far;
  for (std::size_t i = 0; i < singles.size(); ++i) {
    so_far = so_far.with(singles[i]);
    if (i > 0) add(so_far, true);  // the first switch alone is measured already
  }
  return rungs;
}

Ladder climb(const Model& model, Backend& backend, const LadderOptions& options,
             const std::function<void(const LadderProgress&)>& on_progress) {
  return Climber(model, backend, options, on_progress).climb();
}

}  // namespace headroom
