#include "run/model_family.hpp"

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "base/text/json.hpp"
#include "models/text_encoders/clip_text.hpp"
#include "models/text_encoders/language_model.hpp"
#include "models/text_encoders/t5_encoder.hpp"
#include "models/transformers/flux.hpp"
#include "models/transformers/flux2.hpp"
#include "models/transformers/flux3.hpp"
#include "models/transformers/qwen_image.hpp"
#include "models/transformers/z_image.hpp"
#include "models/unets/unet2d_condition.hpp"

namespace headroom {
namespace {

constexpr std::string_view kVae = "AutoencoderKL", kOpenClip = "OpenCLIP";
constexpr std::string_view kFluxPipeline = "FluxPipeline", kSdPipeline = "StableDiffusionPipeline",
                           kXlPipeline = "StableDiffusionXLPipeline", kSd2 = "Stable Diffusion 2.x",
                           kQwenPipeline = "QwenImagePipeline", kQwenImage = "Qwen-Image", kFlux2 = "FLUX.2 [klein]",
                           kFlux3 = "FLUX.3 [klein]", kFlux3Base = "FLUX.3 [klein] base", kZImage = "Z-Image-Turbo";

// The values are those of the published folders. "eos_token_id": 2 in a CLIP is the highest id, whatever its number.
constexpr ModelFamily kFamilies[] = {
    {"FLUX.1-dev", kFluxPipeline, "transformer", kFluxTransformer, "", true, R"({
      "transformer": {"axes_dims_rope": [16, 56, 56]},
      "vae": {"scaling_factor": 0.3611, "shift_factor": 0.1159, "sample_size": 1024},
      "text_encoder": {"hidden_act": "quick_gelu", "eos_token_id": 2},
      "scheduler": {"_class_name": "FlowMatchEulerDiscreteScheduler", "num_train_timesteps": 1000, "shift": 3.0,
                    "use_dynamic_shifting": true, "base_shift": 0.5, "max_shift": 1.15, "base_image_seq_len": 256,
                    "max_image_seq_len": 4096}})"},
    {"FLUX.1-schnell", kFluxPipeline, "transformer", kFluxTransformer, "", true, R"({
      "transformer": {"axes_dims_rope": [16, 56, 56]},
      "vae": {"scaling_factor": 0.3611, "shift_factor": 0.1159, "sample_size": 1024},
      "text_encoder": {"hidden_act": "quick_gelu", "eos_token_id": 2},
      "scheduler": {"_class_name": "FlowMatchEulerDiscreteScheduler", "num_train_timesteps": 1000, "shift": 1.0,
                    "use_dynamic_shifting": false, "base_shift": 0.5, "max_shift": 1.15, "base_image_seq_len": 256,
                    "max_image_seq_len": 4096}})"},
    {kFlux2, "Flux2KleinPipeline", "transformer", kFlux2Transformer, kQwen3, false, R"({
      "transformer": {"axes_dims_rope": [32, 32, 32, 32], "rope_theta": 2000, "eps": 1e-6},
      "text_encoder": {"rms_norm_eps": 1e-6, "rope_theta": 1e6, "hidden_act": "silu"},
      "scheduler": {"_class_name": "FlowMatchEulerDiscreteScheduler", "num_train_timesteps": 1000, "shift": 3.0,
                    "use_dynamic_shifting": true, "base_shift": 0.5, "max_shift": 1.15, "base_image_seq_len": 256,
                    "max_image_seq_len": 4096, "time_shift_type": "exponential"}})"},
    {kFlux3, "Flux3DistilledModularPipeline", "transformer", kFlux3Transformer, kQwen3Vl, false, R"({
      "transformer": {"axes_dims_rope": [32, 32, 32, 32], "rope_theta": 10000, "eps": 1e-6},
      "scheduler": {"_class_name": "FlowMatchEulerDiscreteScheduler", "num_train_timesteps": 1000, "shift": 6.93}})"},
    {kFlux3Base, "Flux3ModularPipeline", "transformer", kFlux3Transformer, kQwen3Vl, false, R"({
      "transformer": {"axes_dims_rope": [32, 32, 32, 32], "rope_theta": 10000, "eps": 1e-6},
      "scheduler": {"_class_name": "FlowMatchEulerDiscreteScheduler", "num_train_timesteps": 1000, "shift": 6.93}})"},
    {kQwenImage, kQwenPipeline, "transformer", kQwenImageTransformer, kQwen25Vl, false, R"({
      "transformer": {"axes_dims_rope": [16, 56, 56], "guidance_embeds": false},
      "text_encoder": {"rms_norm_eps": 1e-6, "rope_theta": 1e6, "hidden_act": "silu"},
      "scheduler": {"_class_name": "FlowMatchEulerDiscreteScheduler", "num_train_timesteps": 1000, "shift": 1.0,
                    "use_dynamic_shifting": true, "base_shift": 0.5, "max_shift": 0.9, "base_image_seq_len": 256,
                    "max_image_seq_len": 8192, "shift_terminal": 0.02, "time_shift_type": "exponential"}})"},
    {kZImage, "ZImagePipeline", "transformer", kZImageTransformer, kQwen3, true, R"({
      "transformer": {"axes_dims": [32, 48, 48], "rope_theta": 256, "t_scale": 1000, "norm_eps": 1e-5},
      "vae": {"scaling_factor": 0.3611, "shift_factor": 0.1159, "sample_size": 1024},
      "text_encoder": {"rms_norm_eps": 1e-6, "rope_theta": 1e6, "hidden_act": "silu"},
      "scheduler": {"_class_name": "FlowMatchEulerDiscreteScheduler", "num_train_timesteps": 1000, "shift": 3.0,
                    "use_dynamic_shifting": false}})"},
    {"SDXL", kXlPipeline, "unet", kUNet2DCondition, "", true, R"({
      "unet": {"channels_per_head": 64, "addition_time_embed_dim": 256, "sample_size": 128},
      "vae": {"scaling_factor": 0.13025, "sample_size": 1024, "force_upcast": true},
      "text_encoder": {"hidden_act": "quick_gelu", "eos_token_id": 2},
      "text_encoder_2": {"hidden_act": "gelu", "eos_token_id": 2},
      "scheduler": {"_class_name": "EulerDiscreteScheduler", "num_train_timesteps": 1000, "beta_start": 0.00085,
                    "beta_end": 0.012, "beta_schedule": "scaled_linear", "interpolation_type": "linear",
                    "prediction_type": "epsilon", "steps_offset": 1, "timestep_spacing": "leading",
                    "use_karras_sigmas": false}})"},
    {kSd2, kSdPipeline, "unet", kUNet2DCondition, "", true, R"({
      "unet": {"channels_per_head": 64, "sample_size": 64},
      "vae": {"scaling_factor": 0.18215, "sample_size": 512},
      "text_encoder": {"hidden_act": "gelu", "eos_token_id": 2},
      "scheduler": {"_class_name": "DDIMScheduler", "num_train_timesteps": 1000, "beta_start": 0.00085,
                    "beta_end": 0.012, "beta_schedule": "scaled_linear", "clip_sample": false,
                    "set_alpha_to_one": false, "steps_offset": 1, "prediction_type": "epsilon"}})"},
    {"Stable Diffusion 1.x", kSdPipeline, "unet", kUNet2DCondition, "", true, R"({
      "unet": {"attention_head_dim": 8, "sample_size": 64},
      "vae": {"scaling_factor": 0.18215, "sample_size": 512},
      "text_encoder": {"hidden_act": "quick_gelu", "eos_token_id": 2},
      "scheduler": {"_class_name": "PNDMScheduler", "num_train_timesteps": 1000, "beta_start": 0.00085,
                    "beta_end": 0.012, "beta_schedule": "scaled_linear", "clip_sample": false,
                    "set_alpha_to_one": false, "skip_prk_steps": true, "steps_offset": 1}})"},
};

const ModelFamily& named(std::string_view name) {
  const auto* const found = std::ranges::find(kFamilies, name, &ModelFamily::name);
  HR_CHECK(found != std::end(kFamilies));
  return *found;
}

/// Stable Diffusion 2.x projects tokens by matrices where 1.x has convolutions.
bool has_linear_projections(const NamedShapes& shapes) {
  for (const char* const name : {"input_blocks.1.1.proj_in.weight", "middle_block.1.proj_in.weight"})
    if (const Shape* const shape = shapes.find(name)) return shape->rank() == 2;
  return false;
}

/// "FluxKontextPipeline" is of the family's pipeline "FluxPipeline".
bool is_of(const ModelFamily& family, std::string_view pipeline) {
  constexpr std::string_view kEnd = "Pipeline";
  if (pipeline.empty()) return true;
  const bool is_xl = pipeline.starts_with("StableDiffusionXL");
  if (is_xl != (family.pipeline == kXlPipeline)) return false;
  return pipeline.starts_with(family.pipeline.substr(0, family.pipeline.size() - kEnd.size()));
}

constexpr std::string_view kBigG = "CLIP-bigG text encoder", kHuge = "CLIP-H text encoder";

bool is_language_model(const NetworkPart& part) {
  return std::ranges::any_of(kFamilies, [&](const ModelFamily& family) {
    return !part.class_name.empty() && part.class_name == family.language_class;
  });
}

/// Whether a text encoder or autoencoder may be one of the family's.
bool fits(const ModelFamily& family, const NetworkPart& part, const NamedShapes& shapes) {
  constexpr std::int64_t kFluxChannels = 16;
  const bool is_flux = family.pipeline == kFluxPipeline, is_sd2 = family.name == kSd2;
  if (part.class_name == kVae) {
    const bool has_channels_of_flux = shapes.extent("decoder.conv_in.weight", 1) == kFluxChannels;
    return family.has_autoencoder && has_channels_of_flux == (is_flux || family.name == kZImage);
  }
  if (!family.language_class.empty() || is_language_model(part)) return part.class_name == family.language_class;
  if (part.class_name == kT5Encoder) return is_flux;
  if (part.class_name != kClipText) return false;
  if (part.network == kBigG) return family.pipeline == kXlPipeline;
  if (part.network == kHuge) return is_sd2;
  return part.names == kOpenClip ? is_sd2 || family.pipeline == kXlPipeline : !is_sd2;
}

}  // namespace

std::span<const ModelFamily> model_families() { return kFamilies; }

const ModelFamily* family_of_denoiser(const NetworkPart& part, const NamedShapes& shapes) {
  if (part.class_name == kFluxTransformer)
    return &named(shapes.has("guidance_in.in_layer.weight") ? "FLUX.1-dev" : "FLUX.1-schnell");
  if (part.class_name == kFlux2Transformer) return &named(kFlux2);
  if (part.class_name == kFlux3Transformer)
    return &named(shapes.has("ref_time_in.in_layer.weight") ? kFlux3 : kFlux3Base);
  if (part.class_name == kQwenImageTransformer) return &named(kQwenImage);
  if (part.class_name == kZImageTransformer) return &named(kZImage);
  if (part.class_name != kUNet2DCondition) return nullptr;
  if (shapes.has("label_emb.0.0.weight")) return &named("SDXL");
  return &named(has_linear_projections(shapes) ? kSd2 : "Stable Diffusion 1.x");
}

const ModelFamily* family_of_part(const NetworkPart& part, const NamedShapes& shapes, std::string_view pipeline) {
  if (const ModelFamily* const family = family_of_denoiser(part, shapes)) return family;
  const auto* const found = std::ranges::find_if(
      kFamilies, [&](const ModelFamily& family) { return is_of(family, pipeline) && fits(family, part, shapes); });
  return found == std::end(kFamilies) ? nullptr : found;
}

FamilyRole role_in(const ModelFamily& family, const NetworkPart& part) {
  const bool is_flux = family.pipeline == kFluxPipeline, is_xl = family.pipeline == kXlPipeline;
  if (part.class_name == family.denoiser_class) return {std::string(family.denoiser), part.class_name};
  if (part.class_name == kVae) return {family.has_autoencoder ? "vae" : "", std::string(kVae)};
  if (!family.language_class.empty() || is_language_model(part))
    return part.class_name == family.language_class ? FamilyRole{"text_encoder", part.class_name} : FamilyRole{};
  if (part.class_name == kT5Encoder) return {is_flux ? "text_encoder_2" : "", part.class_name};
  if (part.class_name != kClipText) return {};
  // OpenCLIP's tensors have other names than those of CLIP L.
  const bool is_second = is_xl && (part.names == kOpenClip || part.network == kBigG);
  if (is_second) return {"text_encoder_2", std::string(kClipTextWithProjection)};
  return {"text_encoder", std::string(kClipText)};
}

nlohmann::json values_of(const ModelFamily& family, std::string_view role) {
  const nlohmann::json values = parse_json(family.values, family.name);
  const auto found = values.find(role);
  return found == values.end() ? nlohmann::json::object() : *found;
}

}  // namespace headroom
