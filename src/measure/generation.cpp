#include "measure/generation.hpp"

#include <utility>

#include "measure/describe.hpp"
#include "measure/machine.hpp"

namespace headroom {
namespace {

struct GenerationTimes {
  Trials steps;
  Trials images;
  Trials prologues;
};

/// Generations are made whole. Those in which the warm-up ends give steps but no image, so one more may be made.
GenerationTimes time_generations(Generator& generator, const Model& model, const GenerationOptions& options) {
  GenerationTimes times;
  const std::int64_t images = generator.request().images;
  const std::vector<ImageRequest> requests = make_image_requests(model, 0, images, 0);
  std::vector<double> warmup_ms;
  while (std::ssize(times.steps.wall_ms) < options.min_trials || times.images.wall_ms.empty()) {
    const bool is_warm = std::ssize(warmup_ms) >= options.warmup_steps;
    double loop_ms = 0;
    (void)generator.generate(requests, [&](std::int64_t, double ms) {
      loop_ms += ms;
      (std::ssize(warmup_ms) < options.warmup_steps ? warmup_ms : times.steps.wall_ms).push_back(ms);
    });
    if (!is_warm) continue;
    const double prologue_ms = generator.session().outside_loops_ms();
    if (prologue_ms > 0) times.prologues.wall_ms.push_back(prologue_ms);
    times.images.wall_ms.push_back((prologue_ms + loop_ms) / static_cast<double>(images));
  }
  times.steps.warmup = std::ssize(warmup_ms);
  times.steps.warmup_stable = is_settled(warmup_ms);
  return times;
}

}  // namespace

ResultFile measure_generation(const Model& model, Backend& backend, const GenerationOptions& options) {
  WeightStore weights(backend, model.checkpoint);
  Generator generator(model, backend, weights, options.request);
  const GenerationTimes times = time_generations(generator, model, options);

  ResultFile file{.created = utc_now(), .machine = describe_machine(), .plans = {}, .results = {}};
  PlanRecord plan = describe_plan(*generator.compiled().program);
  const std::string id = plan_id(plan);
  file.plans.try_emplace(id, std::move(plan));
  const std::int64_t steps = options.request.steps != 0 ? options.request.steps : model.default_steps;
  const std::string name = options.request.switches.to_string();
  file.results.push_back(
      {.id = name,
       .name = name,
       .subject = describe_denoise(model, generator.request(), steps, generator.guidance_scale()),
       .source = {.name = "headroom", .version = file.machine.build ? file.machine.build->version : ""},
       .configuration = describe_configuration(options.request.switches, generator.compiled(), backend),
       .trials = {make_series("step", times.steps), make_series("image", times.images)},
       .memory = describe_memory(generator.session(), weights, backend),
       .quality = {},
       .tags = {},
       .plan = id});
  Result& result = file.results.front();
  if (!times.prologues.wall_ms.empty()) result.trials.push_back(make_series("prologue", times.prologues));
  if (model.checkpoint.is_random()) result.tags.emplace_back("random_weights");
  return file;
}

}  // namespace headroom
