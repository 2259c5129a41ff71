#include "pipelines/pipeline.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <ranges>
#include <utility>

#include "base/error.hpp"
#include "base/files/file.hpp"
#include "base/text/printable.hpp"
#include "ir/param_name.hpp"
#include "media/resize.hpp"
#include "models/autoencoders/autoencoder_kl_flux2.hpp"
#include "models/text_encoders/language_model.hpp"
#include "models/transformers/flux.hpp"
#include "models/transformers/flux2.hpp"
#include "models/transformers/flux3.hpp"
#include "models/transformers/qwen_image.hpp"
#include "models/transformers/z_image.hpp"
#include "models/unets/unet2d_condition.hpp"
#include "passes/step_caches/step_cache.hpp"
#include "pipelines/flux2_pipeline.hpp"
#include "pipelines/flux3_pipeline.hpp"
#include "pipelines/flux_pipeline.hpp"
#include "pipelines/parts_source.hpp"
#include "pipelines/pipeline_parts.hpp"
#include "pipelines/qwen_image_pipeline.hpp"
#include "pipelines/schedules/step_calibration.hpp"
#include "pipelines/stable_diffusion_pipeline.hpp"
#include "pipelines/z_image_pipeline.hpp"

namespace headroom {
namespace {

constexpr const char* kClip = "CLIPTextModel";
constexpr const char* kAutoencoders = "AutoencoderKL or AutoencoderTiny";
constexpr const char* kClipTokenizer = "CLIPTokenizer";
constexpr const char* kQwenTokenizer = "Qwen2Tokenizer";
constexpr const char* kAnyScheduler = "scheduler_config.json";

// The denoiser first.
constexpr PartNeed kFluxNeeds[] = {{"transformer", kFluxTransformer},
                                   {"scheduler", kAnyScheduler},
                                   {"text_encoder", kClip},
                                   {"tokenizer", kClipTokenizer},
                                   {"text_encoder_2", "T5EncoderModel"},
                                   {"tokenizer_2", "T5Tokenizer"},
                                   {"vae", kAutoencoders}};
constexpr PartNeed kFlux2KleinNeeds[] = {{"transformer", kFlux2Transformer},
                                         {"scheduler", kAnyScheduler},
                                         {"text_encoder", kQwen3},
                                         {"tokenizer", kQwenTokenizer},
                                         {"vae", kAutoencoderKLFlux2}};
constexpr PartNeed kFlux3Needs[] = {
    {"transformer", kFlux3Transformer},
    {"scheduler", kAnyScheduler, R"({"_class_name": "FlowMatchEulerDiscreteScheduler", "shift": 6.93})"},
    {"text_encoder", kQwen3Vl},
    {"tokenizer", kQwenTokenizer},
    {"vae", kAutoencoderKLFlux2}};
constexpr PartNeed kQwenImageNeeds[] = {{"transformer", kQwenImageTransformer},
                                        {"scheduler", kAnyScheduler},
                                        {"text_encoder", kQwen25Vl},
                                        {"tokenizer", kQwenTokenizer},
                                        {"vae", "AutoencoderKLQwenImage"}};
constexpr PartNeed kZImageNeeds[] = {{"transformer", kZImageTransformer},
                                     {"scheduler", kAnyScheduler},
                                     {"text_encoder", kQwen3},
                                     {"tokenizer", kQwenTokenizer},
                                     {"vae", kAutoencoders}};
constexpr PartNeed kStableDiffusionNeeds[] = {{"unet", kUNet2DCondition},
                                              {"scheduler", kAnyScheduler},
                                              {"text_encoder", kClip},
                                              {"tokenizer", kClipTokenizer},
                                              {"vae", kAutoencoders}};
constexpr PartNeed kXlNeeds[] = {{"unet", kUNet2DCondition},
                                 {"scheduler", kAnyScheduler},
                                 {"text_encoder", kClip},
                                 {"tokenizer", kClipTokenizer},
                                 {"text_encoder_2", "CLIPTextModelWithProjection"},
                                 {"tokenizer_2", kClipTokenizer},
                                 {"vae", kAutoencoders}};

/// A kind of pipeline: its class in model_index.json, the class of its denoiser, and the parts that it needs.
struct PipelineClass {
  std::string_view name;
  std::string_view denoiser;
  std::span<const PartNeed> needs;
  std::unique_ptr<Pipeline> (*open)(const PartsSource& source);
  std::unique_ptr<Pipeline> (*make)(Component denoiser);
};
constexpr PipelineClass kPipelines[] = {
    {"FluxPipeline", kFluxTransformer, kFluxNeeds, open_flux_pipeline, make_flux_pipeline},
    {"FluxKontextPipeline", kFluxTransformer, kFluxNeeds, open_flux_pipeline, make_flux_pipeline},
    {"FluxModularPipeline", kFluxTransformer, kFluxNeeds, open_flux_pipeline, make_flux_pipeline},
    {"FluxKontextModularPipeline", kFluxTransformer, kFluxNeeds, open_flux_pipeline, make_flux_pipeline},
    {"Flux2KleinPipeline", kFlux2Transformer, kFlux2KleinNeeds, open_flux2_pipeline, make_flux2_pipeline},
    {"Flux2KleinModularPipeline", kFlux2Transformer, kFlux2KleinNeeds, open_flux2_pipeline, make_flux2_pipeline},
    {"Flux2KleinBaseModularPipeline", kFlux2Transformer, kFlux2KleinNeeds, open_flux2_pipeline, make_flux2_pipeline},
    {"Flux3ModularPipeline", kFlux3Transformer, kFlux3Needs, open_flux3_pipeline, make_flux3_pipeline},
    {"Flux3DistilledModularPipeline", kFlux3Transformer, kFlux3Needs, open_flux3_pipeline, make_flux3_pipeline},
    {"QwenImageModularPipeline", kQwenImageTransformer, kQwenImageNeeds, open_qwen_image_pipeline,
     make_qwen_image_pipeline},
    {"QwenImagePipeline", kQwenImageTransformer, kQwenImageNeeds, open_qwen_image_pipeline, make_qwen_image_pipeline},
    {"ZImagePipeline", kZImageTransformer, kZImageNeeds, open_z_image_pipeline, make_z_image_pipeline},
    {"StableDiffusionPipeline", kUNet2DCondition, kStableDiffusionNeeds, open_stable_diffusion_pipeline,
     make_stable_diffusion_pipeline},
    {"StableDiffusionImg2ImgPipeline", kUNet2DCondition, kStableDiffusionNeeds, open_stable_diffusion_pipeline,
     make_stable_diffusion_pipeline},
    {"StableDiffusionXLPipeline", kUNet2DCondition, kXlNeeds, open_stable_diffusion_pipeline,
     make_stable_diffusion_pipeline},
    {"StableDiffusionXLModularPipeline", kUNet2DCondition, kXlNeeds, open_stable_diffusion_pipeline,
     make_stable_diffusion_pipeline},
    {"StableDiffusionXLImg2ImgPipeline", kUNet2DCondition, kXlNeeds, open_stable_diffusion_pipeline,
     make_stable_diffusion_pipeline},
};

const PipelineClass* find_class(const Component& component) {
  const auto* const found = std::ranges::find(kPipelines, component.kind->name, &PipelineClass::denoiser);
  return found == std::end(kPipelines) ? nullptr : found;
}

const PipelineClass& class_of(const PartsSource& source) {
  const auto* const found = std::ranges::find(kPipelines, source.class_name(), &PipelineClass::name);
  if (found == std::end(kPipelines))
    fail("{} is a {}, which is not supported; expected one of {}", source.place(), printable_name(source.class_name()),
         fmt::join(kPipelines | std::views::transform(&PipelineClass::name), ", "));
  return *found;
}

/// The class of pipelines that the user completes by parts; empty for a network that is no denoiser.
std::string class_with_denoiser(const Component& denoiser) {
  const PipelineClass* const found = find_class(denoiser);
  if (found == nullptr) return {};
  const bool is_xl =
      found->denoiser == kUNet2DCondition && parse_unet2d_condition_config(denoiser.config).has_text_time;
  return is_xl ? "StableDiffusionXLPipeline" : std::string(found->name);
}

/// The parts that a model has by itself. Null for a network that is no denoiser.
std::unique_ptr<PartsSource> open_source(const std::string& name_or_path, const OpenOptions& options) {
  const std::filesystem::path folder = find_model_folder(name_or_path);
  if (!folder.empty() && is_pipeline_folder(folder)) return open_parts_folder(folder, options);
  return open_parts_of_networks(name_or_path, options, class_with_denoiser);
}

/// The same with the given parts. Throws Error if parts are missing.
std::unique_ptr<PartsSource> complete(std::unique_ptr<PartsSource> source, const OpenOptions& options) {
  std::vector<PartNeed> needs(class_of(*source).needs.begin(), class_of(*source).needs.end());
  // A transformer on pixels has no autoencoder.
  if (read_defaults(source->folder()).pixels)
    std::erase_if(needs, [](const PartNeed& need) { return need.role == "vae"; });
  std::unique_ptr<PartsSource> whole = with_given_parts(std::move(source), options, needs);
  require_parts(*whole, needs);
  return whole;
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

PreparedReferences Pipeline::prepare_references(std::span<const Image> pictures) const {
  PreparedReferences prepared;
  for (const Image& picture : pictures) {
    const ImageSize size = reference_size({.height = picture.height, .width = picture.width});
    prepared.images.push_back(resize_lanczos(picture, static_cast<int>(size.width), static_cast<int>(size.height)));
  }
  return prepared;
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

bool is_pipeline(const std::string& name_or_path, const OpenOptions& options) {
  const std::filesystem::path folder = find_model_folder(name_or_path);
  if (!folder.empty() && is_pipeline_folder(folder)) return true;
  if (!options.parts.empty()) return true;
  if (!is_there(name_or_path) || is_folder(name_or_path)) return false;
  const std::unique_ptr<PartsSource> source = open_source(name_or_path, options);
  if (source == nullptr) return false;
  const std::span<const PartNeed> needs = class_of(*source).needs;
  return std::ranges::any_of(needs.subspan(1),
                             [&](const PartNeed& need) { return need.role != "scheduler" && source->has(need.role); });
}

void require_whole_pipeline(const std::string& name_or_path, const OpenOptions& options) {
  if (std::unique_ptr<PartsSource> source = open_source(name_or_path, options))
    static_cast<void>(complete(std::move(source), options));
}

bool is_pipeline_class(std::string_view class_name) {
  return std::ranges::find(kPipelines, class_name, &PipelineClass::name) != std::end(kPipelines);
}

std::unique_ptr<Pipeline> open_pipeline(const std::string& name_or_path, const OpenOptions& options) {
  if (!is_pipeline(name_or_path, options)) return make_pipeline(open_component(name_or_path, options));
  std::unique_ptr<PartsSource> source = open_source(name_or_path, options);
  if (source == nullptr) fail_usage("{} is no denoiser of a pipeline, which --part would complete", name_or_path);
  source = complete(std::move(source), options);
  return class_of(*source).open(*source);
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
                         const DeviceTarget& target, bool records_velocities, int rank) {
  Graph graph = pipeline.build_denoise(request);
  if (records_velocities)
    if (const std::optional<std::string> reason = record_velocities(graph))
      fail("the velocities of {} cannot be recorded: {}", pipeline.name(), *reason);
  const CalibratedSwitches calibrated = with_calibration(pipeline, request, switches);
  // What precedes the steps is a program of its own. Ranks keep it in their loops, which share one copy of its weights.
  std::optional<std::vector<std::string>> fresh_inputs;
  if (target.communicator == nullptr) fresh_inputs.emplace();
  Compiled compiled = compile(std::move(graph), calibrated.switches, target,
                              {.steps_applied = true,
                               .baseline = pipeline.denoiser().baseline,
                               .fresh_inputs = std::move(fresh_inputs),
                               .sharing = TokenSharing{.rank = rank, .tokens = pipeline.token_inputs(request)}});
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
