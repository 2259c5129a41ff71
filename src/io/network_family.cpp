#include "io/network_family.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <string_view>

#include "base/tensors/block_format.hpp"
#include "io/lora_name.hpp"

namespace headroom {
namespace {

/// A tensor that a network has, and an extent that tells it from others of the same names.
struct Sign {
  std::string_view name;
  int axis = 0;
  std::int64_t extent = 0;  ///< 0: any
};

struct Family {
  std::string_view network;
  std::string_view names;
  std::array<Sign, 3> signs;  ///< those without a name say nothing
  std::string_view class_name = {};
};

constexpr std::string_view kUNet = "UNet2DConditionModel", kFlux = "FluxTransformer2DModel", kVae = "AutoencoderKL",
                           kFlux2 = "Flux2Transformer2DModel", kFlux3 = "Flux3Transformer2DModel",
                           kClip = "CLIPTextModel", kT5 = "T5EncoderModel", kQwenImage = "QwenImageTransformer2DModel",
                           kZImage = "ZImageTransformer2DModel", kQwen25Vl = "Qwen2_5_VLForConditionalGeneration",
                           kQwen3 = "Qwen3ForCausalLM";

// The first family whose signs are all there. Names of LDM are those of CompVis' and Stability AI's checkpoints, names
// of BFL those of Black Forest Labs.
constexpr Family kFamilies[] = {
    // U-Nets
    {"U-Net for inpainting", "LDM", {{{"input_blocks.0.0.weight", 1, 9}, {"middle_block.0.in_layers.0.weight"}}}},
    {"U-Net of InstructPix2Pix", "LDM", {{{"input_blocks.0.0.weight", 1, 8}, {"middle_block.0.in_layers.0.weight"}}}},
    {"SDXL U-Net",
     "LDM",
     {{{"label_emb.0.0.weight", 1, 2816}, {"input_blocks.4.1.transformer_blocks.0.attn2.to_k.weight", 1, 2048}}},
     kUNet},
    {"SDXL refiner U-Net", "LDM", {{{"label_emb.0.0.weight", 1, 2560}, {"middle_block.0.in_layers.0.weight"}}}},
    {"Stable Diffusion 2.x U-Net",
     "LDM",
     {{{"input_blocks.2.1.transformer_blocks.0.attn2.to_k.weight", 1, 1024}}},
     kUNet},
    {"Stable Diffusion 1.x U-Net",
     "LDM",
     {{{"input_blocks.2.1.transformer_blocks.0.attn2.to_k.weight", 1, 768}}},
     kUNet},
    {"U-Net of another size", "LDM", {{{"input_blocks.0.0.weight"}, {"middle_block.0.in_layers.0.weight"}}}, kUNet},
    {"SDXL U-Net",
     "diffusers",
     {{{"add_embedding.linear_1.weight", 1, 2816},
       {"down_blocks.1.attentions.0.transformer_blocks.0.attn2.to_k.weight", 1, 2048}}}},
    {"Stable Diffusion 2.x U-Net",
     "diffusers",
     {{{"down_blocks.1.attentions.0.transformer_blocks.0.attn2.to_k.weight", 1, 1024}, {"conv_in.weight", 1, 4}}}},
    {"Stable Diffusion 1.x U-Net",
     "diffusers",
     {{{"down_blocks.1.attentions.0.transformer_blocks.0.attn2.to_k.weight", 1, 768}, {"conv_in.weight", 1, 4}}}},
    {"U-Net with a text, of another size",
     "diffusers",
     {{{"conv_in.weight"},
       {"time_embedding.linear_1.weight"},
       {"mid_block.attentions.0.transformer_blocks.0.attn2.to_k.weight"}}}},
    {"U-Net without a text", "diffusers", {{{"conv_in.weight"}, {"time_embedding.linear_1.weight"}}}},
    // transformers
    {"FLUX.2 transformer", "BFL", {{{"single_stream_modulation.lin.weight"}}}, kFlux2},
    {"FLUX.2 transformer", "diffusers", {{{"single_stream_modulation.linear.weight"}}}},
    {"FLUX.3 transformer", "BFL", {{{"emb_in.image.weight"}, {"single_blocks.0.q_proj.weight"}}}, kFlux3},
    {"FLUX.3 transformer",
     "diffusers",
     {{{"x_embedders.image.weight"}, {"single_transformer_blocks.0.attn.to_q.weight"}}}},
    {"Chroma transformer", "BFL", {{{"distilled_guidance_layer.in_proj.bias"}}}},
    {"FLUX.1-Fill transformer", "BFL", {{{"double_blocks.0.img_attn.norm.key_norm.scale"}, {"img_in.weight", 1, 384}}}},
    {"FLUX.1-Depth or Canny transformer",
     "BFL",
     {{{"double_blocks.0.img_attn.norm.key_norm.scale"}, {"img_in.weight", 1, 128}}}},
    {"FLUX.1-dev transformer",
     "BFL",
     {{{"double_blocks.0.img_attn.norm.key_norm.scale"}, {"guidance_in.in_layer.bias"}}},
     kFlux},
    {"FLUX.1-schnell transformer", "BFL", {{{"double_blocks.0.img_attn.norm.key_norm.scale"}}}, kFlux},
    {"FLUX.1-dev transformer",
     "diffusers",
     {{{"x_embedder.weight"}, {"context_embedder.weight"}, {"time_text_embed.guidance_embedder.linear_1.weight"}}}},
    {"FLUX.1-schnell transformer",
     "diffusers",
     {{{"x_embedder.weight"}, {"context_embedder.weight"}, {"time_text_embed.timestep_embedder.linear_1.weight"}}}},
    {"Qwen-Image transformer",
     "diffusers",
     {{{"txt_norm.weight"}, {"transformer_blocks.0.img_mod.1.weight"}}},
     kQwenImage},
    {"Z-Image transformer",
     "its authors",
     {{{"layers.0.adaLN_modulation.0.weight"}, {"cap_pad_token"}, {"x_embedder.weight"}}},
     kZImage},
    {"Z-Image transformer", "diffusers", {{{"all_x_embedder.2-1.weight"}, {"cap_embedder.1.weight"}}}},
    {"FLUX.3 transformer",
     "diffusers",
     {{{"x_embedders.image.weight"}, {"context_embedder.weight"}, {"txt_mode_blocks.0.attn.to_q.weight"}}}},
    // autoencoders
    {"Stable Diffusion autoencoder",
     "LDM",
     {{{"decoder.mid.block_1.norm1.weight"}, {"decoder.conv_in.weight", 1, 4}}},
     kVae},
    {"FLUX.1 autoencoder", "LDM", {{{"decoder.mid.block_1.norm1.weight"}, {"decoder.conv_in.weight", 1, 16}}}, kVae},
    {"FLUX.2 autoencoder", "LDM", {{{"decoder.mid.block_1.norm1.weight"}, {"decoder.conv_in.weight", 1, 32}}}},
    {"FLUX.2 autoencoder", "diffusers", {{{"decoder.mid_block.resnets.0.norm1.weight"}, {"bn.running_mean"}}}},
    {"Stable Diffusion autoencoder",
     "diffusers",
     {{{"decoder.mid_block.resnets.0.norm1.weight"}, {"decoder.conv_in.weight", 1, 4}}}},
    {"FLUX.1 autoencoder",
     "diffusers",
     {{{"decoder.mid_block.resnets.0.norm1.weight"}, {"decoder.conv_in.weight", 1, 16}}}},
    {"FLUX.2 autoencoder",
     "diffusers",
     {{{"decoder.mid_block.resnets.0.norm1.weight"}, {"decoder.conv_in.weight", 1, 32}}}},
    {"autoencoder of another size", "LDM", {{{"decoder.mid.block_1.norm1.weight"}, {"decoder.conv_in.weight"}}}, kVae},
    {"autoencoder of another size",
     "diffusers",
     {{{"decoder.mid_block.resnets.0.norm1.weight"}, {"decoder.conv_in.weight"}}}},
    {"tiny autoencoder", "diffusers", {{{"decoder.layers.0.weight"}, {"encoder.layers.0.weight"}}}},
    {"Qwen-Image autoencoder",
     "diffusers",
     {{{"decoder.up_blocks.0.resnets.0.norm1.gamma"}, {"post_quant_conv.weight"}, {"decoder.conv_in.weight"}}}},
    // text encoders
    {"CLIP-L text encoder", "transformers", {{{"text_model.encoder.layers.0.mlp.fc1.weight", 1, 768}}}, kClip},
    {"CLIP-H text encoder", "transformers", {{{"text_model.encoder.layers.0.mlp.fc1.weight", 1, 1024}}}, kClip},
    {"CLIP-bigG text encoder", "transformers", {{{"text_model.encoder.layers.0.mlp.fc1.weight", 1, 1280}}}, kClip},
    {"CLIP text encoder of another size", "transformers", {{{"text_model.encoder.layers.0.mlp.fc1.weight"}}}, kClip},
    {"CLIP-L text encoder", "transformers", {{{"encoder.layers.0.mlp.fc1.weight", 1, 768}}}, kClip},
    {"CLIP text encoder of another size", "transformers", {{{"encoder.layers.0.mlp.fc1.weight"}}}, kClip},
    {"CLIP-H text encoder", "OpenCLIP", {{{"transformer.resblocks.0.mlp.c_fc.weight", 1, 1024}}}, kClip},
    {"CLIP-bigG text encoder", "OpenCLIP", {{{"transformer.resblocks.0.mlp.c_fc.weight", 1, 1280}}}, kClip},
    {"CLIP text encoder of another size", "OpenCLIP", {{{"transformer.resblocks.0.mlp.c_fc.weight"}}}, kClip},
    {"T5-XXL text encoder", "transformers", {{{"encoder.block.23.layer.1.DenseReluDense.wi_1.weight", 1, 4096}}}, kT5},
    {"T5 text encoder of another size", "transformers", {{{"encoder.block.0.layer.0.SelfAttention.q.weight"}}}, kT5},
    {"T5 text encoder", "llama.cpp", {{{"enc.blk.0.attn_q.weight"}, {"token_embd.weight"}}}, kT5},
    {"Qwen2.5-VL 7B",
     "transformers",
     {{{"visual.merger.ln_q.weight"}, {"model.layers.0.self_attn.k_proj.bias", 0, 512}}},
     kQwen25Vl},
    {"Qwen2.5-VL of another size",
     "transformers",
     {{{"visual.merger.ln_q.weight"}, {"model.layers.0.self_attn.k_proj.bias"}}},
     kQwen25Vl},
    {"Qwen2.5-VL of another size", "transformers", {{{"visual.merger.ln_q.weight"}, {"lm_head.weight"}}}},
    {"Qwen2.5 7B language model", "transformers", {{{"model.layers.0.self_attn.k_proj.bias", 0, 512}}}, kQwen25Vl},
    {"Qwen3-VL",
     "transformers",
     {{{"model.visual.merger.norm.weight"}, {"model.language_model.layers.0.self_attn.q_norm.weight"}}}},
    {"Qwen3 language model", "transformers", {{{"model.layers.0.self_attn.q_norm.weight"}}}, kQwen3},
    {"Qwen2.5 language model",
     "llama.cpp",
     {{{"blk.0.attn_q.bias"}, {"blk.0.attn_q.weight"}, {"token_embd.weight"}}},
     kQwen25Vl},
    {"Qwen3 language model",
     "llama.cpp",
     {{{"blk.0.attn_q_norm.weight"}, {"blk.0.attn_q.weight"}, {"token_embd.weight"}}},
     kQwen3},
    {"GPT-2 language model", "transformers", {{{"transformer.h.0.attn.c_attn.weight"}, {"transformer.wte.weight"}}}},
    {"GPT-2 language model", "transformers", {{{"h.0.attn.c_attn.weight"}, {"wte.weight"}}}},
    {"language model", "llama.cpp", {{{"blk.0.attn_q.weight"}, {"token_embd.weight"}}}},
};

/// The prefixes of a whole checkpoint's parts, and why nothing reads some.
struct Prefix {
  std::string_view text;
  std::string_view unread = {};
};
constexpr Prefix kPrefixes[] = {
    {"model.diffusion_model."},
    {"diffusion_model."},
    {"first_stage_model."},
    {"vae."},
    {"cond_stage_model.transformer."},
    {"cond_stage_model.model."},
    {"conditioner.embedders.0.transformer."},
    {"conditioner.embedders.0.model."},
    {"conditioner.embedders.1.model."},
    {"model_ema.", "moving average of weights, which nothing reads"},
    {"control_model.", "ControlNet, which is not read"},
    {"embedder.model.visual.", "image encoder, which nothing reads"},
};
constexpr std::string_view kTextEncoders = "text_encoders.", kTransformer = ".transformer.";

constexpr std::string_view kNotRecognized = "not recognized";

bool has_sign(std::span<const StoredTensor> tensors, std::string_view prefix, const Sign& sign) {
  if (sign.name.empty()) return true;
  const std::string name = std::string(prefix).append(sign.name);
  const auto found = std::ranges::lower_bound(tensors, name, {}, &StoredTensor::name);
  if (found == tensors.end() || found->name != name) return false;
  return sign.extent == 0 || (sign.axis < found->shape.rank() && found->shape[sign.axis] == sign.extent);
}

/// Whether all tensors are those of adapters, and some are factors of an update.
bool are_adapters(std::span<const StoredTensor> tensors) {
  using enum LoraPart;
  bool has_factors = false;
  for (const StoredTensor& tensor : tensors) {
    const std::optional<LoraTensorName> name = parse_lora_name(tensor.name);
    if (!name) return false;
    has_factors = has_factors || name->part == kDown || name->part == kHadaW1A || name->part == kLokrW1 ||
                  name->part == kLokrW1A || name->part == kDifference;
  }
  return has_factors;
}

void recognize(std::span<const StoredTensor> tensors, NetworkPart& part) {
  for (const Prefix& prefix : kPrefixes)
    if (prefix.text == part.prefix && !prefix.unread.empty()) {
      part.network = prefix.unread;
      return;
    }
  for (const Family& family : kFamilies)
    if (std::ranges::all_of(family.signs, [&](const Sign& sign) { return has_sign(tensors, part.prefix, sign); })) {
      part.network = family.network;
      part.names = family.names;
      part.class_name = family.class_name;
      return;
    }
  part.network = kNotRecognized;
}

}  // namespace

std::string_view part_prefix(std::string_view name) {
  for (const Prefix& prefix : kPrefixes)
    if (name.starts_with(prefix.text)) return prefix.text;
  // "text_encoders.t5xxl.transformer." is one of many.
  if (!name.starts_with(kTextEncoders)) return {};
  const std::size_t end = name.find(kTransformer, kTextEncoders.size());
  return end == std::string_view::npos ? std::string_view() : name.substr(0, end + kTransformer.size());
}

void WeightMemory::add(const StoredTensor& tensor) {
  constexpr std::uint64_t kNarrow = 2, kScale = 4;
  const auto elements = static_cast<std::uint64_t>(tensor.shape.numel());
  const bool is_matrix = tensor.shape.rank() == 2;
  const BlockFormat* const format = find_block_format(tensor.dtype);
  const bool is_packed = is_matrix && format != nullptr && format->is_packed();
  has_blocks = has_blocks || is_packed;
  bf16 += kNarrow * elements;
  eight_bits += is_matrix ? elements + kScale * static_cast<std::uint64_t>(tensor.shape[0]) : kNarrow * elements;
  packed += is_packed ? tensor.size_bytes : kNarrow * elements;
}

std::vector<NetworkPart> recognize_networks(std::span<const StoredTensor> tensors) {
  const bool is_adapter = are_adapters(tensors);
  std::map<std::string, NetworkPart, std::less<>> parts;
  for (const StoredTensor& tensor : tensors) {
    const std::string_view prefix = is_adapter ? std::string_view() : part_prefix(tensor.name);
    auto part = parts.find(prefix);
    if (part == parts.end()) part = parts.emplace(prefix, NetworkPart{.prefix = std::string(prefix)}).first;
    ++part->second.tensors;
    part->second.size_bytes += tensor.size_bytes;
    part->second.memory.add(tensor);
  }
  std::vector<NetworkPart> found;
  for (auto& [prefix, part] : parts) {
    if (is_adapter)
      part.network = "adapter such as a LoRA, which --lora takes";
    else
      recognize(tensors, part);
    if (prefix.empty() && part.network == kNotRecognized && parts.size() > 1) part.network = "other tensors";
    found.push_back(std::move(part));
  }
  std::ranges::stable_sort(found, std::ranges::greater(), &NetworkPart::size_bytes);
  return found;
}

}  // namespace headroom
