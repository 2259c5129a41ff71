#include "pipelines/pipeline.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <ranges>
#include <utility>

#include "base/error.hpp"
#include "ir/param_name.hpp"
#include "models/transformers/flux.hpp"
#include "models/transformers/qwen_image.hpp"
#include "models/unets/unet2d_condition.hpp"
#include "passes/step_caches/step_cache.hpp"
#include "pipelines/flux_pipeline.hpp"
#include "pipelines/model_index.hpp"
#include "pipelines/qwen_image_pipeline.hpp"
#include "pipelines/schedules/step_calibration.hpp"
#include "pipelines/stable_diffusion_pipeline.hpp"

namespace headroom {
namespace {

/// A kind of pipeline: its class in model_index.json, and the class of its denoiser.
struct PipelineClass {
  std::string_view name;
  std::string_view denoiser;
  std::unique_ptr<Pipeline> (*open)(const ModelIndex& index, std::optional<std::uint64_t> random_seed);
  std::unique_ptr<Pipeline> (*make)(Component denoiser);
};
constexpr PipelineClass kPipelines[] = {
    {"FluxPipeline", kFluxTransformer, open_flux_pipeline, make_flux_pipeline},
    {"FluxKontextPipeline", kFluxTransformer, open_flux_pipeline, make_flux_pipeline},
    {"QwenImagePipeline", kQwenImageTransformer, open_qwen_image_pipeline, make_qwen_image_pipeline},
    {"StableDiffusionPipeline", kUNet2DCondition, open_stable_diffusion_pipeline, make_stable_diffusion_pipeline},
    {"StableDiffusionImg2ImgPipeline", kUNet2DCondition, open_stable_diffusion_pipeline,
     make_stable_diffusion_pipeline},
    {"StableDiffusionXLPipeline", kUNet2DCondition, open_stable_diffusion_pipeline, make_stable_diffusion_pipeline},
    {"StableDiffusionXLImg2ImgPipeline", kUNet2DCondition, open_stable_diffusion_pipeline,
     make_stable_diffusion_pipeline},
};

const PipelineClass* find_class(const Component& component) {
  const auto* const found = std::ranges::find(kPipelines, component.kind->name, &PipelineClass::denoiser);
  return found == std::end(kPipelines) ? nullptr : found;
}

const PipelineClass& class_of(const ModelIndex& index) {
  const auto* const found = std::ranges::find(kPipelines, index.class_name(), &PipelineClass::name);
  if (found == std::end(kPipelines))
    fail("{} is a {}, which is not supported; expected one of {}", index.folder().string(), index.class_name(),
         fmt::join(kPipelines | std::views::transform(&PipelineClass::name), ", "));
  return *found;
}

}  // namespace

const Component& Pipeline::component(std::string_view part) const {
  const auto found = std::ranges::find(components_, part, &Component::part);
  HR_CHECK(found != components_.end());
  return *found;
}

void Pipeline::choose_baselines(const std::function<DType(const Checkpoint&)>& choose) {
  for (Component& component : components_) component.baseline = choose(component.checkpoint);
}

void Pipeline::set_updates(const ParamUpdates& updates) {
  for (Component& component : components_) {
    component.updates.clear();
    for (const auto& [param, update] : updates)
      if (split_param_name(param).checkpoint == component.part) component.updates.emplace(param, update);
  }
}

bool Pipeline::has_random_weights() const {
  return std::ranges::any_of(components_, [](const Component& each) { return each.checkpoint.is_random(); });
}

HostTensor Pipeline::decode(const HostTensor& /*latents*/, const Request& /*request*/) const {
  fail("{}", obstacle_to_images());
}

std::unique_ptr<ClassifierJudge> Pipeline::open_judge(Backend& /*cpu*/) const {
  fail_usage("--quality needs a trained model with pixels and a classifier in its folder; {} is not one", name());
}

bool is_denoiser(const Component& component) { return find_class(component) != nullptr; }

std::unique_ptr<Pipeline> make_pipeline(Component denoiser) {
  const PipelineClass* const found = find_class(denoiser);
  if (found == nullptr)
    fail_usage(
        "{} ({}) makes no images by itself: forward, bench, ladder, plan and profile take it, and stream if it makes "
        "video",
        denoiser.name, denoiser.kind->name);
  return found->make(std::move(denoiser));
}

bool is_pipeline(const std::string& name_or_folder) {
  const std::filesystem::path folder = find_model_folder(name_or_folder);
  return !folder.empty() && ModelIndex::is_in(folder);
}

bool is_pipeline_class(std::string_view class_name) {
  return std::ranges::find(kPipelines, class_name, &PipelineClass::name) != std::end(kPipelines);
}

std::unique_ptr<Pipeline> open_pipeline(const std::string& name_or_folder, std::optional<std::uint64_t> random_seed) {
  if (!is_pipeline(name_or_folder)) return make_pipeline(open_component(name_or_folder, random_seed));
  const ModelIndex index(find_model_folder(name_or_folder));
  return class_of(index).open(index, random_seed);
}

std::optional<std::string> negative_prompt_of(const ImageRequest& image, std::size_t reader) {
  return reader > 0 && image.negative_prompt_2 ? image.negative_prompt_2 : image.negative_prompt;
}

std::string prompt_of(const Pipeline& pipeline, const ImageRequest& image, std::size_t reader) {
  if (reader > 0 && image.prompt_2) return *image.prompt_2;
  if (image.prompt) return *image.prompt;
  const std::span<const std::string> prompts = pipeline.prompts();
  if (image.label < 0 || image.label >= std::ssize(prompts))
    fail_usage("label {} is not one of the model's 0 to {}", image.label, std::ssize(prompts) - 1);
  return prompts[static_cast<std::size_t>(image.label)];
}

std::vector<std::optional<std::string>> texts_of(const Pipeline& pipeline, const Request& request,
                                                 std::span<const ImageRequest> images, std::size_t reader) {
  std::vector<std::optional<std::string>> texts;
  if (request.classifier_free_guidance)
    for (const ImageRequest& image : images) texts.push_back(negative_prompt_of(image, reader));
  for (const ImageRequest& image : images) texts.emplace_back(prompt_of(pipeline, image, reader));
  return texts;
}

std::int64_t tokens_along(const Pipeline& pipeline, std::string_view what, std::int64_t pixels) {
  const std::int64_t per_token = pipeline.token_pixels();
  if (pixels % per_token != 0)
    fail_usage("{} is {}, expected a multiple of {}, the pixels of {} along a token", what, pixels, per_token,
               pipeline.name());
  return pixels / per_token;
}

Compiled compile_denoise(const Pipeline& pipeline, const Request& request, const SwitchSet& switches,
                         const DeviceTarget& target, bool records_velocities) {
  Graph graph = pipeline.build_denoise(request);
  if (records_velocities)
    if (const std::optional<std::string> reason = record_velocities(graph))
      fail("the velocities of {} cannot be recorded: {}", pipeline.name(), *reason);
  const CalibratedSwitches calibrated = with_calibration(pipeline, request, switches);
  Compiled compiled = compile(
      std::move(graph), calibrated.switches, target,
      {.steps_applied = true, .baseline = pipeline.denoiser().baseline, .fresh_inputs = std::vector<std::string>()});
  if (calibrated.note.empty()) return compiled;
  for (PassRecord& pass : compiled.passes)
    if (pass.name == "meancache" && pass.rewrites > 0) pass.notes.push_back({.reason = calibrated.note, .nodes = {}});
  for (std::string& applied : compiled.applied)  // under the requested name
    if (applied.starts_with("meancache=")) applied = fmt::format("meancache={}", *switches.argument("meancache"));
  return compiled;
}

std::vector<ImageRequest> make_image_requests(const Pipeline& pipeline, std::int64_t first, std::int64_t count,
                                              std::uint64_t seed) {
  const std::int64_t prompts = std::max<std::int64_t>(std::ssize(pipeline.prompts()), 1);
  std::vector<ImageRequest> requests;
  for (std::int64_t i = first; i < first + count; ++i)
    requests.push_back({.label = i % prompts, .seed = seed + static_cast<std::uint64_t>(i)});
  return requests;
}

}  // namespace headroom
