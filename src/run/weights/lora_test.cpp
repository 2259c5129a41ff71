#include "run/weights/lora.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "base/test_util.hpp"
#include "base/text/json.hpp"
#include "io/safetensors.hpp"
#include "run/test_util.hpp"

namespace headroom {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using Tensors = std::map<std::string, HostTensor>;

/// A FLUX of width 16 alone, with random bf16 weights.
class Loras : public testing::Test {
 protected:
  Loras() {
    write_json(folder_ / "config.json", {{"_class_name", "FluxTransformer2DModel"},
                                         {"num_layers", 1},
                                         {"num_single_layers", 1},
                                         {"attention_head_dim", 8},
                                         {"num_attention_heads", 2},
                                         {"in_channels", 4},
                                         {"joint_attention_dim", 6},
                                         {"pooled_projection_dim", 6},
                                         {"axes_dims_rope", {2, 2, 4}}});
    components_.push_back(open_component(folder_.path().string(), {.random_seed = 7}));
  }
  std::string write(const std::string& name, const Tensors& tensors) {
    write_safetensors(folder_ / name, tensors);
    return (folder_ / name).string();
  }
  ParamUpdates updates(const Tensors& tensors) {
    const LoraUse use{.file = write("a.safetensors", tensors)};
    return files_.updates({&use, 1}, components_);
  }
  std::string refusal(const Tensors& tensors) {
    return error_of([&] { static_cast<void>(updates(tensors)); });
  }
  static Tensors factors(const std::string& module, std::int64_t rows, std::int64_t columns) {
    return {{module + ".lora_A.weight", random_f32({2, columns}, 1)},
            {module + ".lora_B.weight", random_f32({rows, 2}, 2)}};
  }

  TempFolder folder_;
  std::vector<Component> components_;
  LoraFiles files_;
};

std::vector<std::string> params_of(const ParamUpdates& updates) {
  std::vector<std::string> params;
  for (const auto& [param, update] : updates) params.push_back(param);
  return params;
}

TEST_F(Loras, FindModulesByEveryName) {
  const auto of = [&](const std::string& module, std::int64_t rows, std::int64_t columns) {
    return params_of(updates(factors(module, rows, columns)));
  };
  for (const char* name : {"transformer.transformer_blocks.0.attn.to_out.0", "lora_unet_double_blocks_0_img_attn_proj",
                           "diffusion_model.double_blocks.0.img_attn.proj", "double_blocks.0.img_attn.proj",
                           "double_blocks.0.processor.proj_lora1", "base_model.model.double_blocks.0.img_attn.proj",
                           "lora_transformer_transformer_blocks_0_attn_to_out_0", "transformer_blocks.0.attn.to_out.0",
                           "lycoris_transformer_blocks_0_attn_to_out_0",
                           "transformer.base_model.model.transformer_blocks.0.attn.to_out.0"})
    EXPECT_THAT(of(name, 16, 16), ElementsAre("transformer_blocks.0.attn.to_out.0.weight")) << name;
  EXPECT_THAT(
      of("lora_unet_single_blocks_0_linear1", 112, 16),
      ElementsAre("single_transformer_blocks.0.attn.to_k.weight", "single_transformer_blocks.0.attn.to_q.weight",
                  "single_transformer_blocks.0.attn.to_v.weight", "single_transformer_blocks.0.proj_mlp.weight"));
}

TEST_F(Loras, GiveEachModuleItsOwnRows) {
  const std::string module = "single_blocks.0.linear1";
  const Tensors tensors = factors(module, 112, 16);
  const ParamUpdates all = updates(tensors);
  const HostTensor& up = tensors.at(module + ".lora_B.weight");
  const auto first_of = [&](const char* param) {
    float first = 0;
    std::memcpy(&first, all.at(std::string("single_transformer_blocks.0.") + param).terms.at(0).factors.up.bytes.data(),
                4);
    return first;
  };
  EXPECT_EQ(first_of("attn.to_q.weight"), up.at(0));
  EXPECT_EQ(first_of("attn.to_k.weight"), up.at(32));
  EXPECT_EQ(first_of("attn.to_v.weight"), up.at(64));
  EXPECT_EQ(first_of("proj_mlp.weight"), up.at(96));

  const ParamUpdates swapped = updates(factors("final_layer.adaLN_modulation.1", 32, 16));
  float first = 0;
  std::memcpy(&first, swapped.at("norm_out.linear.weight").terms.at(0).factors.up.bytes.data(), 4);
  EXPECT_EQ(first, random_f32({32, 2}, 2).at(32));
}

/// Kronecker products interleave rows of both matrices: they are cut after the multiplication.
TEST_F(Loras, GiveEachModuleItsRowsOfAKroneckerProduct) {
  const auto rows_of = [&](const std::string& module, const Shape& left, const Shape& right, const std::string& param) {
    const ParamUpdates all =
        updates({{module + ".lokr_w1", random_f32(left, 1)}, {module + ".lokr_w2", random_f32(right, 2)}});
    return all.at(param).terms.at(0).rows;
  };
  const std::string qkv = "double_blocks.0.img_attn.qkv", ours = "transformer_blocks.0.attn.";
  EXPECT_THAT(rows_of(qkv, {2, 4}, {24, 4}, ours + "to_q.weight"), ElementsAre(RowRange{0, 16}));
  EXPECT_THAT(rows_of(qkv, {2, 4}, {24, 4}, ours + "to_k.weight"), ElementsAre(RowRange{16, 16}));
  EXPECT_THAT(rows_of(qkv, {2, 4}, {24, 4}, ours + "to_v.weight"), ElementsAre(RowRange{32, 16}));
  EXPECT_THAT(rows_of("final_layer.adaLN_modulation.1", {4, 4}, {8, 4}, "norm_out.linear.weight"),
              ElementsAre(RowRange{16, 16}, RowRange{0, 16}));
  EXPECT_THAT(rows_of("x_embedder", {4, 2}, {4, 2}, "x_embedder.weight"), IsEmpty());
  EXPECT_THAT(refusal({{qkv + ".lokr_w1", random_f32({2, 4}, 1)}, {qkv + ".lokr_w2", random_f32({8, 4}, 2)}}),
              HasSubstr("'double_blocks.0.img_attn.qkv.lokr_w1' is [2, 4] and makes 16 rows, expected 48 rows"));
  EXPECT_THAT(refusal({{"x_embedder.lokr_w1", random_f32({4, 2}, 1)}, {"x_embedder.lokr_w2", random_f32({4, 4}, 2)}}),
              HasSubstr("the product of the factors is [16, 8], expected [16, 4]"));
}

TEST_F(Loras, GiveEachModuleItsMagnitudes) {
  const std::string qkv = "double_blocks.0.img_attn.qkv";
  Tensors tensors = factors(qkv, 48, 16);
  const HostTensor magnitude = random_f32({48}, 3);
  tensors.emplace(qkv + ".lora_magnitude_vector", magnitude);
  const ParamUpdates all = updates(tensors);
  const HostView& of_k = *all.at("transformer_blocks.0.attn.to_k.weight").terms.at(0).magnitude;
  EXPECT_EQ(of_k.shape, (Shape{16, 1}));
  float first = 0;
  std::memcpy(&first, of_k.bytes.data(), sizeof(first));
  EXPECT_EQ(first, magnitude.at(16));

  tensors = factors(qkv, 48, 16);
  tensors.emplace(qkv + ".dora_scale", random_f32({1, 16}, 3));
  EXPECT_THAT(
      refusal(tensors),
      HasSubstr("has magnitudes [1, 16], expected [48, 1], those of the outputs of transformer_blocks.0.attn.to_q, "));
  tensors = factors("x_embedder", 16, 4);
  tensors.emplace("x_embedder.dora_scale", random_f32({1, 5}, 3));
  EXPECT_THAT(refusal(tensors), HasSubstr("its magnitudes are [1, 5], expected one for each of 16 outputs"));
}

TEST_F(Loras, RefuseWhatFitsNoModule) {
  EXPECT_THAT(refusal(factors("transformer.transformer_blocks.0.attn.to_w", 16, 16)),
              AllOf(HasSubstr("a.safetensors: tensor 'transformer.transformer_blocks.0.attn.to_w.lora_A.weight'"),
                    HasSubstr("of no module of FluxTransformer2DModel"), HasSubstr("did you mean")));
  EXPECT_THAT(refusal(factors("lora_unet_double_blocks_1_img_attn_proj", 16, 16)), HasSubstr("of no module"));
  EXPECT_THAT(refusal(factors("x_embedder", 24, 4)),
              AllOf(HasSubstr("'x_embedder.lora_B.weight'"), HasSubstr("[24, 2], expected 16 rows")));
  EXPECT_THAT(refusal(factors("img_in", 16, 8)),
              AllOf(HasSubstr("'img_in.lora_B.weight'"), HasSubstr("'x_embedder.weight' bf16[16, 4]"),
                    HasSubstr("is [16, 8], expected [16, 4]")));
  EXPECT_THAT(refusal(factors("double_blocks.0.img_attn.qkv", 16, 16)), HasSubstr("expected 48 rows"));
  EXPECT_THAT(refusal({{"x_embedder.diff", random_f32({}, 1)}}), HasSubstr("is [], expected 16 rows"));
  EXPECT_THAT(refusal({{"x_embedder.diff", random_f32({16, 5}, 1)}}), HasSubstr("is [16, 5], expected [16, 4]"));
  EXPECT_THAT(refusal({{"double_blocks.0.img_attn.norm.query_norm.scale", random_f32({9}, 1)}}),
              AllOf(HasSubstr("query_norm.scale' is f32[9]"), HasSubstr("[8]")));
  EXPECT_THAT(refusal({{"transformer_blocks.0.attn.norm_q.diff_b", random_f32({8}, 1)}}),
              HasSubstr("'transformer_blocks.0.attn.norm_q.bias', which"));
  const LoraUse missing{.file = (folder_ / "b.safetensors").string()};
  EXPECT_THAT(error_of([&] {
                static_cast<void>(files_.updates({&missing, 1}, components_));
              }),
              HasSubstr("b.safetensors"));
}

TEST_F(Loras, OfOtherNetworksAreLeftOutWithANote) {
  Tensors tensors = factors("transformer.x_embedder", 16, 4);
  tensors.merge(factors("lora_te1_text_model_encoder_layers_0_mlp_fc1", 8, 8));
  EXPECT_THAT(params_of(updates(tensors)), ElementsAre("x_embedder.weight"));
  EXPECT_THAT(files_.notes(), ElementsAre(AllOf(HasSubstr("1 module"), HasSubstr("lora_te1_text_model"))));
  static_cast<void>(updates(factors("transformer.x_embedder", 16, 4)));
  EXPECT_THAT(files_.notes(), IsEmpty());
}

TEST_F(Loras, OfOtherNetworksAloneAreRefused) {
  EXPECT_THAT(refusal(factors("lora_te1_text_model_encoder_layers_0_mlp_fc1", 8, 8)),
              AllOf(HasSubstr("a.safetensors: none of its 1 module is of FluxTransformer2DModel, as "),
                    HasSubstr("'lora_te1_text_model_encoder_layers_0_mlp_fc1'")));
  Tensors two = factors("text_encoder.text_model.encoder.layers.0.mlp.fc1", 8, 8);
  two.merge(factors("unet.conv_in", 8, 8));
  EXPECT_THAT(refusal(two), HasSubstr("none of its 2 modules"));
}

TEST_F(Loras, TellOfEmbeddingsInTheFile) {
  Tensors tensors = factors("x_embedder", 16, 4);
  tensors.emplace("bundle_emb.<fox>.t5", random_f32({2, 6}, 4));
  EXPECT_THAT(params_of(updates(tensors)), ElementsAre("x_embedder.weight"));
  EXPECT_THAT(files_.notes(), ElementsAre(HasSubstr("'bundle_emb.<fox>.t5' is not used")));
}

TEST_F(Loras, AreReadAgainWhenTheAdapterConfigurationChanges) {
  const Tensors tensors = factors("base_model.model.x_embedder", 16, 4);
  std::filesystem::create_directory(folder_ / "adapter");
  const std::string file = write("adapter/adapter_model.safetensors", tensors);
  const auto scale = [&] {
    const LoraUse use{.file = file};
    return files_.updates({&use, 1}, components_).at("x_embedder.weight").terms.at(0).scale;
  };
  EXPECT_EQ(scale(), 1);
  write_json(folder_ / "adapter/adapter_config.json", {{"r", 2}, {"lora_alpha", 4}});
  EXPECT_EQ(scale(), 2);
  write_json(folder_ / "adapter/adapter_config.json", {{"r", 2}, {"lora_alpha", 10}});
  EXPECT_EQ(scale(), 5);
  std::filesystem::remove(folder_ / "adapter/adapter_config.json");
  EXPECT_EQ(scale(), 1);
}

TEST_F(Loras, AreTheSameWhileTheFileIs) {
  const LoraUse one{.file = write("one.safetensors", factors("x_embedder", 16, 4))};
  const LoraUse half{.file = one.file, .weight = 0.5}, none{.file = one.file, .weight = 0};
  const LoraUse other{.file = write("other.safetensors", factors("x_embedder", 16, 4)), .weight = -1};
  const auto of = [&](std::vector<LoraUse> uses) { return files_.updates(uses, components_); };
  const std::string param = "x_embedder.weight";
  EXPECT_THAT(differing_params(of({one}), of({one})), IsEmpty());
  EXPECT_THAT(differing_params(of({one, other}), of({one, other})), IsEmpty());
  EXPECT_THAT(differing_params(of({one}), of({half})), ElementsAre(param));
  EXPECT_THAT(differing_params(of({one}), of({other})), ElementsAre(param));
  EXPECT_THAT(differing_params(of({one}), of({})), ElementsAre(param));
  EXPECT_THAT(of({none}), IsEmpty());
  EXPECT_EQ(of({one, other}).at(param).terms.at(1).scale, -1);

  const ParamUpdates before = of({one});
  std::filesystem::last_write_time(one.file, std::filesystem::last_write_time(one.file) + std::chrono::seconds(2));
  EXPECT_THAT(differing_params(before, of({one})), ElementsAre(param));
}

TEST(QwenImageLoras, FindModulesByEveryPrefix) {
  const TempFolder folder;
  write_json(folder / "config.json", {{"_class_name", "QwenImageTransformer2DModel"},
                                      {"num_layers", 1},
                                      {"attention_head_dim", 8},
                                      {"num_attention_heads", 2},
                                      {"in_channels", 4},
                                      {"out_channels", 1},
                                      {"joint_attention_dim", 6},
                                      {"axes_dims_rope", {2, 2, 4}}});
  const Component component = open_component(folder.path().string(), {.random_seed = 7});
  for (const auto& [name, param] : {
           std::pair("transformer.transformer_blocks.0.attn.add_q_proj", "attn.add_q_proj"),
           std::pair("transformer.base_model.model.transformer_blocks.0.attn.to_out.0", "attn.to_out.0"),
           std::pair("diffusion_model.transformer_blocks.0.attn.to_add_out", "attn.to_add_out"),
           std::pair("lora_unet_transformer_blocks_0_attn_to_q", "attn.to_q"),
           std::pair("transformer_blocks.0.attn.to_v", "attn.to_v"),
       }) {
    Tensors tensors = {{std::string(name) + ".lora_down.weight", random_f32({2, 16}, 1)},
                       {std::string(name) + ".lora_up.weight", random_f32({16, 2}, 2)},
                       {std::string(name) + ".alpha", random_f32({1}, 3)}};
    write_safetensors(folder / "a.safetensors", tensors);
    const LoraUse use{.file = (folder / "a.safetensors").string()};
    LoraFiles files;
    EXPECT_THAT(params_of(files.updates({&use, 1}, {&component, 1})),
                ElementsAre("transformer_blocks.0." + std::string(param) + ".weight"))
        << name;
  }
  for (const auto& [name, rows, columns, param] : {
           std::tuple("lora_unet_transformer_blocks_0_img_mod_1", 96, 16, "img_mod.1"),
           std::tuple("lora_unet_transformer_blocks_0_txt_mlp_net_0_proj", 64, 16, "txt_mlp.net.0.proj"),
           std::tuple("transformer.transformer_blocks.0.img_mlp.net.2", 16, 64, "img_mlp.net.2"),
       }) {
    write_safetensors(folder / "b.safetensors",
                      {{std::string(name) + ".lora_A.default.weight", random_f32({2, columns}, 1)},
                       {std::string(name) + ".lora_B.default.weight", random_f32({rows, 2}, 2)}});
    const LoraUse use{.file = (folder / "b.safetensors").string()};
    LoraFiles files;
    EXPECT_THAT(params_of(files.updates({&use, 1}, {&component, 1})),
                ElementsAre("transformer_blocks.0." + std::string(param) + ".weight"))
        << name;
  }
}

/// Names of SDXL's modules and their positions, on U-Nets with the same levels.
TEST(UNetLoras, FindModulesByDiffusersAndByStabilitysNames) {
  const TempFolder folder;
  write_json(folder / "config.json",
             {{"_class_name", "UNet2DConditionModel"},
              {"down_block_types", {"DownBlock2D", "CrossAttnDownBlock2D", "CrossAttnDownBlock2D"}},
              {"up_block_types", {"CrossAttnUpBlock2D", "CrossAttnUpBlock2D", "UpBlock2D"}},
              {"block_out_channels", {4, 4, 4}},
              {"norm_num_groups", 2},
              {"attention_head_dim", 2},
              {"transformer_layers_per_block", {1, 1, 2}},
              {"cross_attention_dim", 4},
              {"addition_embed_type", "text_time"},
              {"addition_time_embed_dim", 2},
              {"projection_class_embeddings_input_dim", 16}});
  const Component component = open_component(folder.path().string(), {.random_seed = 7});
  const std::pair<const char*, const char*> names[] = {
      {"lora_unet_down_blocks_1_attentions_0_transformer_blocks_0_attn1_to_q",
       "down_blocks.1.attentions.0.transformer_blocks.0.attn1.to_q"},
      {"unet.down_blocks.1.attentions.0.transformer_blocks.0.attn1.to_q",
       "down_blocks.1.attentions.0.transformer_blocks.0.attn1.to_q"},
      {"unet.down_blocks.1.attentions.0.transformer_blocks.0.attn1.processor.to_out_lora",
       "down_blocks.1.attentions.0.transformer_blocks.0.attn1.to_out.0"},
      {"down_blocks.1.attentions.0.transformer_blocks.0.attn2.processor.to_k_lora",
       "down_blocks.1.attentions.0.transformer_blocks.0.attn2.to_k"},
      {"unet.base_model.model.down_blocks.1.attentions.0.proj_in", "down_blocks.1.attentions.0.proj_in"},
      {"lycoris_down_blocks_1_attentions_0_transformer_blocks_0_attn1_to_q",
       "down_blocks.1.attentions.0.transformer_blocks.0.attn1.to_q"},
      {"lora_unet_input_blocks_4_1_transformer_blocks_0_attn1_to_q",
       "down_blocks.1.attentions.0.transformer_blocks.0.attn1.to_q"},
      {"lora_unet_input_blocks_8_1_transformer_blocks_1_ff_net_2",
       "down_blocks.2.attentions.1.transformer_blocks.1.ff.net.2"},
      {"lora_unet_input_blocks_8_1_proj_in", "down_blocks.2.attentions.1.proj_in"},
      {"lora_unet_input_blocks_2_0_out_layers_3", "down_blocks.0.resnets.1.conv2"},
      {"lora_unet_input_blocks_6_0_op", "down_blocks.1.downsamplers.0.conv"},
      {"lora_unet_middle_block_1_transformer_blocks_1_attn2_to_out_0",
       "mid_block.attentions.0.transformer_blocks.1.attn2.to_out.0"},
      {"lora_unet_middle_block_2_in_layers_2", "mid_block.resnets.1.conv1"},
      {"lora_unet_output_blocks_2_2_conv", "up_blocks.0.upsamplers.0.conv"},
      {"lora_unet_output_blocks_5_1_transformer_blocks_0_attn2_to_v",
       "up_blocks.1.attentions.2.transformer_blocks.0.attn2.to_v"},
      {"lora_unet_output_blocks_8_0_skip_connection", "up_blocks.2.resnets.2.conv_shortcut"},
      {"lora_unet_time_embed_2", "time_embedding.linear_2"},
      {"lora_unet_label_emb_0_0", "add_embedding.linear_1"},
      {"lora_unet_out_2", "conv_out"}};
  for (const auto& [name, module] : names) {
    const std::string param = std::string(module) + ".weight";
    const Shape& shape = component.checkpoint.entry(param).shape;
    const Shape up{shape[0], 2}, down{2, shape.numel() / shape[0]};
    write_safetensors(folder / "a.safetensors", Tensors{{std::string(name) + ".lora_down.weight", random_f32(down, 1)},
                                                        {std::string(name) + ".lora_up.weight", random_f32(up, 2)}});
    LoraFiles files;
    const LoraUse use{.file = (folder / "a.safetensors").string()};
    EXPECT_THAT(params_of(files.updates({&use, 1}, {&component, 1})), ElementsAre(param)) << name;
  }
}

/// Two text encoders, as in SDXL: one with names as written by transformers 4, and one without `text_model`.
class TextLoras : public testing::Test {
 protected:
  TextLoras() {
    add("text_encoder", "CLIPTextModel", 8);
    add("text_encoder_2", "CLIPTextModelWithProjection", 12);
  }
  void add(const std::string& part, const char* kind, std::int64_t width) {
    const std::filesystem::path folder = folder_ / part;
    std::filesystem::create_directory(folder);
    write_json(folder / "config.json", {{"architectures", {kind}},
                                        {"vocab_size", 20},
                                        {"hidden_size", width},
                                        {"intermediate_size", 2 * width},
                                        {"projection_dim", width},
                                        {"num_hidden_layers", 1},
                                        {"num_attention_heads", 2},
                                        {"max_position_embeddings", 8},
                                        {"hidden_act", "gelu"}});
    components_.push_back(open_component(folder.string(), {.random_seed = 7}));
    components_.back().part = components_.back().name = part;
  }
  std::string param_of(const std::string& module, std::int64_t width, std::span<const Component> components) {
    write_safetensors(folder_ / "a.safetensors", Tensors{{module + ".lora_down.weight", random_f32({2, width}, 1)},
                                                         {module + ".lora_up.weight", random_f32({width, 2}, 2)}});
    const LoraUse use{.file = (folder_ / "a.safetensors").string()};
    LoraFiles files;
    return params_of(files.updates({&use, 1}, components)).at(0);
  }
  TempFolder folder_;
  std::vector<Component> components_;
};

TEST_F(TextLoras, FindModulesByEveryName) {
  const std::string q = "encoder.layers.0.self_attn.q_proj.weight";
  const std::string first = param_of("text_encoder.text_model.encoder.layers.0.self_attn.q_proj", 8, components_);
  EXPECT_THAT(first, AllOf(testing::StartsWith("text_encoder:"), testing::EndsWith(q)));
  for (const char* module :
       {"text_encoder.encoder.layers.0.self_attn.q_proj", "lora_te1_text_model_encoder_layers_0_self_attn_q_proj",
        "lora_te_encoder_layers_0_self_attn_q_proj",
        "text_encoders.clip_l.transformer.text_model.encoder.layers.0.self_attn.q_proj",
        "text_encoder.text_model.encoder.layers.0.self_attn.to_q_lora",
        "text_encoder.encoder.layers.0.self_attn.to_q_lora",
        "text_encoder.base_model.model.text_model.encoder.layers.0.self_attn.q_proj"})
    EXPECT_EQ(param_of(module, 8, components_), first) << module;
  const std::string out = param_of("text_encoder.text_model.encoder.layers.0.self_attn.to_out_lora", 8, components_);
  EXPECT_THAT(out, testing::EndsWith("self_attn.out_proj.weight"));
  const std::string second = param_of("lora_te2_text_model_encoder_layers_0_self_attn_q_proj", 12, components_);
  EXPECT_THAT(second, AllOf(testing::StartsWith("text_encoder_2:"), testing::EndsWith(q)));
  for (const char* module :
       {"text_encoders.clip_g.transformer.text_model.encoder.layers.0.self_attn.q_proj",
        "text_encoder_2.encoder.layers.0.self_attn.q_proj", "lora_te2_encoder_layers_0_self_attn_q_proj",
        "text_encoder_2.text_model.encoder.layers.0.self_attn.to_q_lora"})
    EXPECT_EQ(param_of(module, 12, components_), second) << module;
  EXPECT_EQ(param_of("text_encoder_2.text_projection", 12, components_), "text_encoder_2:text_projection.weight");
}

TEST_F(TextLoras, WithoutAPrefixAreOfTheOneEncoderThatThereIs) {
  const std::string module = "base_model.model.text_model.encoder.layers.0.self_attn.q_proj";
  EXPECT_THAT(param_of(module, 8, std::span(components_).first(1)), testing::StartsWith("text_encoder:"));
  EXPECT_THAT(param_of(module, 12, std::span(components_).last(1)), testing::StartsWith("text_encoder_2:"));
  EXPECT_THAT(error_of([&] { static_cast<void>(param_of(module, 8, components_)); }),
              AllOf(HasSubstr("'base_model.model.text_model.encoder.layers.0.self_attn.q_proj.lora_down.weight'"),
                    HasSubstr("may be of text_encoder or of text_encoder_2, expected a prefix")));
}

TEST(LoraOption, IsAFileAndAWeight) {
  EXPECT_EQ(parse_lora("a.safetensors"), (LoraUse{"a.safetensors", 1}));
  EXPECT_EQ(parse_lora("a.safetensors:0.75"), (LoraUse{"a.safetensors", 0.75}));
  EXPECT_EQ(parse_lora("b:c/a.safetensors:-2"), (LoraUse{"b:c/a.safetensors", -2}));
  for (const char* text : {"a:", "a:x", "a:1x", "a:nan", "a:inf", ":1"})
    EXPECT_THAT(error_of([&] { static_cast<void>(parse_lora(text)); }), HasSubstr("FILE:WEIGHT")) << text;
}

/// The names of diffusers and of the authors, whose queries, keys and values are one matrix.
TEST(ZImageLoras, FindModulesByEveryName) {
  const TempFolder folder;
  write_json(folder / "config.json", {{"_class_name", "ZImageTransformer2DModel"},
                                      {"in_channels", 1},
                                      {"dim", 12},
                                      {"n_layers", 1},
                                      {"n_refiner_layers", 1},
                                      {"n_heads", 2},
                                      {"cap_feat_dim", 6},
                                      {"axes_dims", {2, 2, 2}}});
  const Component component = open_component(folder.path().string(), {.random_seed = 7});
  const std::vector<std::string> qkv = {"attention.to_k", "attention.to_q", "attention.to_v"};
  const struct {
    const char* name;
    std::int64_t rows, columns;
    std::string block;
    std::vector<std::string> modules;
  } cases[] = {{"transformer.layers.0.attention.to_q", 12, 12, "layers.0", {"attention.to_q"}},
               {"diffusion_model.layers.0.attention.to_out.0", 12, 12, "layers.0", {"attention.to_out.0"}},
               {"diffusion_model.layers.0.attention.out", 12, 12, "layers.0", {"attention.to_out.0"}},
               {"diffusion_model.context_refiner.0.attention.qkv", 36, 12, "context_refiner.0", qkv},
               {"lora_unet_layers_0_attention_to_out_0", 12, 12, "layers.0", {"attention.to_out.0"}},
               {"lora_unet_layers_0_attention_qkv", 36, 12, "layers.0", qkv},
               {"lora_unet_noise_refiner_0_feed_forward_w1", 32, 12, "noise_refiner.0", {"feed_forward.w1"}},
               {"layers.0.adaLN_modulation.0", 48, 12, "layers.0", {"adaLN_modulation.0"}}};
  for (const auto& [name, rows, columns, block, modules] : cases) {
    write_safetensors(folder / "a.safetensors", {{std::string(name) + ".lora_down.weight", random_f32({2, columns}, 1)},
                                                 {std::string(name) + ".lora_up.weight", random_f32({rows, 2}, 2)}});
    const LoraUse use{.file = (folder / "a.safetensors").string()};
    LoraFiles files;
    std::vector<std::string> expected;
    for (const std::string& module : modules) expected.push_back(fmt::format("{}.{}.weight", block, module));
    EXPECT_THAT(params_of(files.updates({&use, 1}, {&component, 1})), testing::ElementsAreArray(expected)) << name;
  }
}

}  // namespace
}  // namespace headroom
