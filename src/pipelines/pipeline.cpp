#include "pipelines/pipeline.hpp"

#include <algorithm>
#include <utility>

#include "base/error.hpp"
#include "pipelines/flux_pipeline.hpp"

namespace headroom {
namespace {

/// A kind of pipeline, and the class of network that it denoises with.
struct PipelineClass {
  std::string_view denoiser;
  std::unique_ptr<Pipeline> (*make)(Component denoiser);
};
constexpr PipelineClass kPipelines[] = {
    {kFluxTransformer, make_flux_pipeline},
};

const PipelineClass* find_class(const Component& component) {
  const auto* const found = std::ranges::find(kPipelines, component.kind->name, &PipelineClass::denoiser);
  return found == std::end(kPipelines) ? nullptr : found;
}

}  // namespace

HostTensor Pipeline::decode(const HostTensor& /*latents*/, const Request& /*request*/) const {
  fail("{}", obstacle_to_images());
}

std::unique_ptr<ClassifierJudge> Pipeline::open_judge(Backend& /*cpu*/) const {
  fail_usage("--quality needs a trained model with pixels and a classifier beside it, which {} is not", name());
}

bool is_denoiser(const Component& component) { return find_class(component) != nullptr; }

std::unique_ptr<Pipeline> make_pipeline(Component denoiser) {
  const PipelineClass* const found = find_class(denoiser);
  if (found == nullptr)
    fail_usage("{} is an {}, which makes no images by itself: forward, bench, plan and profile take it", denoiser.name,
               denoiser.kind->name);
  return found->make(std::move(denoiser));
}

std::unique_ptr<Pipeline> open_pipeline(const std::string& name_or_folder, std::optional<std::uint64_t> random_seed) {
  return make_pipeline(open_component(name_or_folder, random_seed));
}

std::int64_t tokens_along(const Pipeline& pipeline, std::string_view what, std::int64_t pixels) {
  const std::int64_t per_token = pipeline.token_pixels();
  if (pixels % per_token != 0)
    fail_usage("{} is {}, expected a multiple of {}, the pixels of {} along a token", what, pixels, per_token,
               pipeline.name());
  return pixels / per_token;
}

Compiled compile_denoise(const Pipeline& pipeline, const Request& request, const SwitchSet& switches,
                         const Target& target) {
  return compile(pipeline.build_denoise(request), switches, target,
                 {.steps_applied = true, .baseline = pipeline.denoiser().baseline});
}

std::vector<ImageRequest> make_image_requests(const Pipeline& pipeline, std::int64_t first, std::int64_t count,
                                              std::uint64_t seed) {
  const std::int64_t labels = std::max<std::int64_t>(std::ssize(pipeline.labels()), 1);
  std::vector<ImageRequest> requests;
  for (std::int64_t i = first; i < first + count; ++i)
    requests.push_back({.label = i % labels, .seed = seed + static_cast<std::uint64_t>(i)});
  return requests;
}

}  // namespace headroom
