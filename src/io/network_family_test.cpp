#include "io/network_family.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "base/test_paths.hpp"

namespace headroom {
namespace {

std::vector<StoredTensor> tensors_of(const std::vector<std::pair<std::string, Shape>>& shapes) {
  std::vector<StoredTensor> tensors;
  for (const auto& [name, shape] : shapes)
    tensors.push_back({name, "F16", true, shape, static_cast<std::uint64_t>(2 * shape.numel())});
  std::ranges::sort(tensors, {}, &StoredTensor::name);
  return tensors;
}

/// "network / names" of the only part.
std::string network_of(const std::vector<StoredTensor>& tensors) {
  const std::vector<NetworkPart> parts = recognize_networks(tensors);
  if (parts.size() != 1) return std::to_string(parts.size()) + " parts";
  return parts[0].network + " / " + parts[0].names;
}

std::string network_of_golden(const std::string& path) {
  return network_of(list_weights(std::string(kSourceDir) + "/tests/goldens/" + path).tensors);
}

// Written by diffusers and transformers, with few channels.
TEST(NetworkFamily, RecognizesWhatLibrariesWrite) {
  EXPECT_EQ(network_of_golden("flux/tiny-guidance"), "FLUX.1-dev transformer / diffusers");
  EXPECT_EQ(network_of_golden("pipelines/flux-schnell/transformer"), "FLUX.1-schnell transformer / diffusers");
  EXPECT_EQ(network_of_golden("unets/sd15"), "U-Net with a text, of another size / diffusers");
  EXPECT_EQ(network_of_golden("unets/sdxl"), "U-Net with a text, of another size / diffusers");
  EXPECT_EQ(network_of_golden("unets/pixel"), "U-Net without a text / diffusers");
  EXPECT_EQ(network_of_golden("vae/stable-diffusion"), "Stable Diffusion autoencoder / diffusers");
  EXPECT_EQ(network_of_golden("vae/flux"), "autoencoder of another size / diffusers");
  EXPECT_EQ(network_of_golden("vae/tiny"), "tiny autoencoder / diffusers");
  EXPECT_EQ(network_of_golden("text/clip-l"), "CLIP text encoder of another size / transformers");
  EXPECT_EQ(network_of_golden("text/clip-g"), "CLIP text encoder of another size / transformers");
  EXPECT_EQ(network_of_golden("text/t5"), "T5 text encoder of another size / transformers");
  EXPECT_EQ(network_of_golden("pipelines/qwen-image/transformer"), "Qwen-Image transformer / diffusers");
  EXPECT_EQ(network_of_golden("pipelines/z-image/transformer"), "Z-Image transformer / diffusers");
  EXPECT_EQ(network_of_golden("single_files/z-image.safetensors"), "Z-Image transformer / its authors");
  EXPECT_EQ(network_of_golden("pipelines/qwen-image/vae"), "Qwen-Image autoencoder / diffusers");
  EXPECT_EQ(network_of_golden("text/qwen2.5-vl"), "Qwen2.5-VL of another size / transformers");
  EXPECT_EQ(network_of_golden("text/qwen3"), "Qwen3 language model / transformers");
  EXPECT_EQ(network_of_golden("pipelines/flux3-base/transformer"), "FLUX.3 transformer / diffusers");
  EXPECT_EQ(network_of_golden("pipelines/flux3-base/text_encoder"), "Qwen3-VL / transformers");
  EXPECT_EQ(network_of_golden("pipelines/flux2-klein/vae"), "FLUX.2 autoencoder / diffusers");
  for (const std::string_view file : {"kohya", "bfl", "peft", "xlabs", "comfy"})
    EXPECT_EQ(network_of_golden(fmt::format("lora/{}.safetensors", file)),
              "adapter such as a LoRA, which --lora takes / ");
  EXPECT_EQ(network_of_golden("gguf/blocks.gguf"), "not recognized / ");
}

// With the names and extents of the published models.
TEST(NetworkFamily, TellsSizesApart) {
  const std::string cross = "input_blocks.2.1.transformer_blocks.0.attn2.to_k.weight";
  EXPECT_EQ(network_of(tensors_of({{cross, {320, 768}}})), "Stable Diffusion 1.x U-Net / LDM");
  EXPECT_EQ(network_of(tensors_of({{cross, {320, 1024}}})), "Stable Diffusion 2.x U-Net / LDM");
  EXPECT_EQ(network_of(tensors_of({{"input_blocks.0.0.weight", {320, 9, 3, 3}},
                                   {"middle_block.0.in_layers.0.weight", {1280}},
                                   {cross, {320, 768}}})),
            "U-Net for inpainting / LDM");
  EXPECT_EQ(network_of(tensors_of({{"label_emb.0.0.weight", {1280, 2816}},
                                   {"input_blocks.4.1.transformer_blocks.0.attn2.to_k.weight", {640, 2048}}})),
            "SDXL U-Net / LDM");
  EXPECT_EQ(network_of(tensors_of({{"down_blocks.1.attentions.0.transformer_blocks.0.attn2.to_k.weight", {640, 768}},
                                   {"conv_in.weight", {320, 4, 3, 3}}})),
            "Stable Diffusion 1.x U-Net / diffusers");
  const std::pair<std::string, Shape> bfl = {"double_blocks.0.img_attn.norm.key_norm.scale", {128}};
  EXPECT_EQ(network_of(tensors_of({bfl})), "FLUX.1-schnell transformer / BFL");
  EXPECT_EQ(network_of(tensors_of({bfl, {"guidance_in.in_layer.bias", {3072}}})), "FLUX.1-dev transformer / BFL");
  EXPECT_EQ(network_of(tensors_of({bfl, {"guidance_in.in_layer.bias", {3072}}, {"img_in.weight", {3072, 384}}})),
            "FLUX.1-Fill transformer / BFL");
  EXPECT_EQ(network_of(tensors_of(
                {{"decoder.mid_block.resnets.0.norm1.weight", {512}}, {"decoder.conv_in.weight", {512, 16, 3, 3}}})),
            "FLUX.1 autoencoder / diffusers");
  EXPECT_EQ(network_of(tensors_of({{"single_stream_modulation.lin.weight", {18432, 6144}}})),
            "FLUX.2 transformer / BFL");
  EXPECT_EQ(
      network_of(tensors_of({{"emb_in.image.weight", {3072, 128}}, {"single_blocks.0.q_proj.weight", {3072, 3072}}})),
      "FLUX.3 transformer / BFL");
  EXPECT_EQ(network_of(tensors_of({{"transformer.resblocks.0.mlp.c_fc.weight", {5120, 1280}}})),
            "CLIP-bigG text encoder / OpenCLIP");
  EXPECT_EQ(network_of(tensors_of({{"blk.0.attn_q.weight", {8, 8}}, {"token_embd.weight", {8, 8}}})),
            "language model / llama.cpp");
  for (const std::string_view prefix : {"transformer.", ""})
    EXPECT_EQ(network_of(tensors_of({{fmt::format("{}h.0.attn.c_attn.weight", prefix), {32, 96}},
                                     {fmt::format("{}wte.weight", prefix), {1024, 32}}})),
              "GPT-2 language model / transformers");
  EXPECT_EQ(network_of(tensors_of({{cross, {320, 640}}})), "not recognized / ");
  EXPECT_EQ(network_of(tensors_of({{cross, {320}}})), "not recognized / ") << "no such axis";
  EXPECT_TRUE(recognize_networks({}).empty());
}

TEST(NetworkFamily, DividesAWholeCheckpointByItsPrefixes) {
  const std::vector<NetworkPart> parts = recognize_networks(tensors_of({
      {"model.diffusion_model.label_emb.0.0.weight", {1280, 2816}},
      {"model.diffusion_model.input_blocks.4.1.transformer_blocks.0.attn2.to_k.weight", {640, 2048}},
      {"first_stage_model.decoder.mid.block_1.norm1.weight", {512}},
      {"first_stage_model.decoder.conv_in.weight", {512, 4, 3, 3}},
      {"conditioner.embedders.0.transformer.text_model.encoder.layers.0.mlp.fc1.weight", {3072, 768}},
      {"conditioner.embedders.1.model.transformer.resblocks.0.mlp.c_fc.weight", {5120, 1280}},
      {"text_encoders.t5xxl.transformer.encoder.block.23.layer.1.DenseReluDense.wi_1.weight", {10240, 4096}},
      {"model_ema.decay", {}},
      {"alphas_cumprod", {1000}},
  }));
  std::vector<std::string> found;
  for (const NetworkPart& part : parts) found.push_back(part.prefix + " " + part.network);
  EXPECT_THAT(found, testing::ElementsAre("text_encoders.t5xxl.transformer. T5-XXL text encoder",
                                          "conditioner.embedders.1.model. CLIP-bigG text encoder",
                                          "model.diffusion_model. SDXL U-Net",
                                          "conditioner.embedders.0.transformer. CLIP-L text encoder",
                                          "first_stage_model. Stable Diffusion autoencoder", " other tensors",
                                          "model_ema. moving average of weights, which nothing reads"));
  EXPECT_EQ(parts[2].tensors, 2);
  EXPECT_EQ(parts[2].size_bytes, 2U * (1280 * 2816 + 640 * 2048));
}

}  // namespace
}  // namespace headroom
