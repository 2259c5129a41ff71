#include "measure/protocol/generation.hpp"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "backends/device.hpp"
#include "base/tensors/divide_up.hpp"
#include "measure/probes/machine.hpp"
#include "measure/protocol/stages.hpp"
#include "measure/results/describe.hpp"

namespace headroom {

GenerationTimer::GenerationTimer(const Backend& backend, int warmup_steps, bool images_when_warm)
    : warmup_steps_(warmup_steps), images_when_warm_(images_when_warm), probe_(pci_bus_id_of(backend)) {}

HostTensor GenerationTimer::generate(Generator& generator, std::span<const ImageRequest> requests,
                                     const std::function<void()>& on_step) {
  const bool was_warm = std::ssize(warmup_ms_) >= warmup_steps_, by_generation = generator.has_step_cache();
  double steps_ms = 0;
  generator.prompt_reader().forget();
  probe_.begin();
  const HostTensor latents = generator.generate(requests, [&](std::int64_t, double ms) {
    steps_ms += ms;
    if (by_generation) {
      if (!was_warm) warmup_ms_.push_back(ms);
    } else if (std::ssize(warmup_ms_) < warmup_steps_) {
      warmup_ms_.push_back(ms);
      probe_.begin();
    } else {
      times_.steps.wall_ms.push_back(ms);
      probe_.add_trial();
    }
    if (on_step) on_step();
  });
  if (by_generation) {
    add_computed_steps(generator.computed_steps());
    if (was_warm) {
      times_.steps.wall_ms.push_back(steps_ms / static_cast<double>(generator.request().steps));
      probe_.add_trial();
    }
  }
  HostTensor pixels;
  if (generator.makes_pixels()) pixels = generator.decode(latents);
  if (images_when_warm_ && !was_warm) return pixels;
  double whole_ms = 0;
  for (const StageRun& stage : generator.stages()) {
    whole_ms += stage.milliseconds;
    add_stage(stage);
  }
  times_.prologues.wall_ms.push_back(std::max(0.0, whole_ms - steps_ms));
  times_.images.wall_ms.push_back(whole_ms / static_cast<double>(requests.size()));
  return pixels;
}

void GenerationTimer::add_stage(const StageRun& stage) {
  auto times = std::ranges::find(times_.stages, stage.name, &StageTimes::name);
  if (times == times_.stages.end()) times = times_.stages.insert(times, {.name = stage.name, .runs = {}});
  times->runs.wall_ms.push_back(stage.milliseconds);
}

bool GenerationTimer::has_steps(std::int64_t trials) const {
  return std::ssize(times_.steps.wall_ms) >= (generations_ > 0 ? std::min(kFewestGenerations, trials) : trials);
}

std::int64_t GenerationTimer::generations_for(const Generator& generator, std::int64_t trials) const {
  if (generator.has_step_cache()) return (warmup_steps_ > 0 ? 1 : 0) + std::min(kFewestGenerations, trials);
  return divide_up(std::max<std::int64_t>(1, warmup_steps_ + trials), generator.request().steps);
}

void GenerationTimer::add_computed_steps(const std::vector<bool>& computed) {
  times_.computed_share.resize(computed.size(), 0.0);
  for (std::size_t step = 0; step < computed.size(); ++step) {
    double& share = times_.computed_share[step];
    share = (share * generations_ + (computed[step] ? 1 : 0)) / (generations_ + 1);
  }
  ++generations_;
}

GenerationTimes GenerationTimer::take() {
  times_.steps.warmup = std::ssize(warmup_ms_);
  times_.steps.warmup_stable = is_settled(warmup_ms_);
  times_.steps.conditions = probe_.take();
  return std::move(times_);
}

GenerationTimes time_requests(Generator& generator, std::span<const ImageRequest> requests, const Backend& backend,
                              const Protocol& protocol, const std::function<void(const TrialProgress&)>& on_progress) {
  std::optional<GenerationTimer> timer;
  timer.emplace(backend, 0, false);
  const auto generate = [&] {
    static_cast<void>(timer->generate(generator, requests));
    return timer->times().images.wall_ms.back();
  };
  Trials images = measure_self_timed(generate, protocol, [&](const TrialProgress& at) {
    if (at.warming_up) timer.emplace(backend, 0, false);
    if (on_progress) on_progress(at);
  });
  GenerationTimes times = timer->take();
  const auto follow_images = [&](Trials& trials, std::int64_t in_generation) {
    trials.warmup = images.warmup * in_generation;
    trials.warmup_stable = images.warmup_stable;
    trials.complete = images.complete;
  };
  follow_images(times.steps, generator.has_step_cache() ? 1 : generator.request().calls());
  follow_images(times.prologues, 1);
  for (StageTimes& stage : times.stages) follow_images(stage.runs, 1);
  times.images = std::move(images);
  return times;
}

void add_series(Result& result, const GenerationTimes& times) {
  result.trials.push_back(make_series("step", times.steps));
  result.trials.push_back(make_series("image", times.images));
  add_series_of_parts(result, times);
}

void add_series_of_parts(Result& result, const GenerationTimes& times) {
  if (!times.prologues.wall_ms.empty()) result.trials.push_back(make_series("prologue", times.prologues));
  for (const StageTimes& stage : times.stages) result.trials.push_back(make_series(stage.name, stage.runs));
}

ResultFile measure_generation(const Pipeline& pipeline, Backend& backend, GenerationOptions options) {
  options.request.switches = options.request.switches.for_target(backend.properties().target);
  WeightStore weights(backend, pipeline.components());
  auto generator = std::make_unique<Generator>(pipeline, backend, weights, options.request);
  const std::vector<ImageRequest> requests = make_image_requests(pipeline, 0, generator->request().images, 0);
  // Only whole generations are made. Generations that contain the end of the warm-up give steps but no image time, so
  // one more may be needed.
  GenerationTimer timer(backend, options.warmup_steps, true);
  while (!timer.has_steps(options.min_trials) || timer.times().images.wall_ms.empty())
    (void)timer.generate(*generator, requests);

  ResultFile file = begin_result_file();
  Result result = begin_result(options.request.switches, describe_request(pipeline, options.request),
                               generator->compiled(), pipeline.denoiser().checkpoint, backend);
  add_plan_and_memory(result, file.plans, *generator, weights, backend);
  GenerationTimes times = timer.take();
  add_series(result, times);
  result.computed_share = std::move(times.computed_share);
  if (options.floors) {
    const std::vector<StageWork> work = work_of_stages(*generator);
    generator.reset();  // frees its memory for the measurement that follows
    add_floors(result.stages, work, backend);
  }
  file.results.push_back(std::move(result));
  return file;
}

}  // namespace headroom
