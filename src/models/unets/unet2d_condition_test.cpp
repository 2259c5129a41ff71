#include "models/unets/unet2d_condition.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "base/test_util.hpp"
#include "ir/verify.hpp"
#include "models/test_util.hpp"

namespace headroom {
namespace {

using testing::HasSubstr;

nlohmann::json changed(nlohmann::json config, const nlohmann::json& changes) {
  config.update(changes);
  return config;
}

std::string error_of_unet(const nlohmann::json& changes, const nlohmann::json& config = sd15_unet_config()) {
  return error_of([&] { static_cast<void>(parse_unet2d_condition_config(changed(config, changes))); });
}

/// The graph of a network's own pass over an image of that many latents.
Graph forward(const nlohmann::json& config, std::int64_t height, std::int64_t width) {
  const ComponentPass& pass = class_of(config).passes.front();
  InputShapes shapes = pass.shapes(config, {.batch = 2, .height = 64, .width = 64, .text_tokens = 3});
  Shape& sample = shapes.find("sample")->second;
  sample = Shape{sample[0], sample[1], height, width};
  Graph graph = pass.build(config, shapes, f32_params());
  verify(graph);
  return graph;
}

std::int64_t parameters_of(const nlohmann::json& config) { return count_params(forward(config, 8, 8)); }

Shape param_shape(const Graph& graph, std::string_view name) {
  const ValueId param = graph.find(ValueKind::kParam, name);
  return param == kNoValue ? Shape{} : graph.type(param).shape;
}

TEST(UNet2DCondition, HasTheParametersOfStableDiffusion) {
  EXPECT_EQ(parameters_of(sd15_unet_config()), 859'520'964);
  EXPECT_EQ(parameters_of(sd21_unet_config()), 865'910'724);
  EXPECT_EQ(parameters_of(sd_turbo_unet_config()), 865'910'724);
  EXPECT_EQ(parameters_of(sdxl_unet_config()), 2'567'463'684);
}

TEST(UNet2DCondition, CallsItsParamsAsCheckpointsDo) {
  const Graph graph = forward(sdxl_unet_config(), 8, 8);
  EXPECT_EQ(param_shape(graph, "down_blocks.1.attentions.0.transformer_blocks.1.attn2.to_k.weight"),
            (Shape{640, 2048}));
  EXPECT_EQ(param_shape(graph, "down_blocks.1.attentions.0.transformer_blocks.0.ff.net.0.proj.bias"), (Shape{5120}));
  EXPECT_EQ(param_shape(graph, "up_blocks.0.resnets.2.conv_shortcut.weight"), (Shape{1280, 1920, 1, 1}));
  EXPECT_EQ(param_shape(graph, "mid_block.attentions.0.transformer_blocks.9.norm3.weight"), (Shape{1280}));
  EXPECT_EQ(param_shape(graph, "add_embedding.linear_1.weight"), (Shape{1280, 2816}));
  EXPECT_EQ(param_shape(graph, "mid_block.attentions.0.transformer_blocks.0.attn1.to_q.bias"), Shape{});
}

TEST(UNet2DCondition, TakesAnySizeAndGivesTheSame) {
  const Graph graph = forward(sd_turbo_unet_config(), 11, 6);
  ASSERT_EQ(graph.outputs().size(), 1U);
  EXPECT_EQ(graph.outputs()[0].name, "out_sample");
  EXPECT_EQ(graph.type(graph.outputs()[0].value).shape, (Shape{2, 4, 11, 6}));
}

TEST(UNet2DCondition, ALatentIsEightPixels) {
  const ComponentClass unet = unet2d_condition_class();
  const ComponentPass& pass = unet.passes.front();
  const InputShapes shapes = pass.shapes(sd15_unet_config(), unet.own_size(sd15_unet_config()));
  EXPECT_EQ(shapes.at("sample"), (Shape{1, 4, 64, 64}));
  EXPECT_EQ(shapes.at("encoder_hidden_states"), (Shape{1, 77, 768}));
  EXPECT_EQ(pass.shapes(sdxl_unet_config(), unet.own_size(sdxl_unet_config())).at("sample"), (Shape{1, 4, 128, 128}));
  EXPECT_THROW((void)pass.shapes(sd15_unet_config(), {.height = 60, .width = 64}), Error);
}

TEST(UNet2DCondition, TakesAsManyTimeIdsAsFitNextToTheText) {
  const nlohmann::json config = sdxl_unet_config();
  const ComponentPass pass = unet2d_condition_class().passes.front();
  InputShapes shapes = pass.shapes(config, {.height = 64, .width = 64, .text_tokens = 3});
  EXPECT_EQ(shapes.at("text_embeds"), (Shape{1, 1280}));
  EXPECT_EQ(shapes.at("time_ids"), (Shape{1, 6}));
  shapes["time_ids"] = Shape{1, 5};
  EXPECT_THROW((void)pass.build(config, shapes, f32_params()), Error);
  shapes["text_embeds"] = Shape{1, 1536};  // as for the ids of the refiner
  EXPECT_NO_THROW((void)pass.build(config, shapes, f32_params()));
  shapes.erase("time_ids");
  EXPECT_THROW((void)pass.build(config, shapes, f32_params()), Error);
}

TEST(UNet2DConditionConfig, ReadsDefaultsAndLevels) {
  const UNet2DConditionConfig plain = parse_unet2d_condition_config({{"_class_name", "UNet2DConditionModel"}});
  EXPECT_EQ(plain.heads, (std::vector<std::int64_t>{8, 8, 8, 8}));
  EXPECT_EQ(plain.cross_attention_dim, 1280);
  EXPECT_EQ(plain.up_attends, (std::vector<bool>{true, true, true, false})) << "by level, not in their order";
  const UNet2DConditionConfig xl = parse_unet2d_condition_config(sdxl_unet_config());
  EXPECT_EQ(xl.transformer_layers, (std::vector<std::int64_t>{1, 2, 10}));
  EXPECT_TRUE(xl.has_text_time);
  const nlohmann::json wide = changed(sd15_unet_config(), {{"sample_size", {64, 96}}});
  EXPECT_EQ(parse_unet2d_condition_config(wide).sample_size[1], 96);
}

TEST(UNet2DConditionConfig, NamesWhatIsNotSupported) {
  EXPECT_THAT(error_of_unet({{"_class_name", "UNet2DModel"}}), HasSubstr("_class_name is \"UNet2DModel\""));
  EXPECT_THAT(error_of_unet({{"class_embed_type", "timestep"}}), HasSubstr("class_embed_type is \"timestep\""));
  EXPECT_THAT(error_of_unet({{"num_class_embeds", 1000}}), HasSubstr("num_class_embeds is 1000, expected null"));
  EXPECT_THAT(error_of_unet({{"addition_embed_type", "image"}}), HasSubstr("is \"image\", expected \"text_time\""));
  EXPECT_THAT(error_of_unet({{"dual_cross_attention", true}}), HasSubstr("dual_cross_attention is true"));
  EXPECT_THAT(error_of_unet({{"num_attention_heads", 8}}), HasSubstr("num_attention_heads is 8"));
  EXPECT_THAT(error_of_unet({{"time_cond_proj_dim", 256}}), HasSubstr("time_cond_proj_dim is 256"));
  EXPECT_THAT(error_of_unet({{"act_fn", "gelu"}}), HasSubstr("act_fn is \"gelu\""));
  EXPECT_THAT(error_of_unet({{"mid_block_type", "UNetMidBlock2DSimpleCrossAttn"}}), HasSubstr("mid_block_type"));
  EXPECT_THAT(error_of_unet({{"down_block_types", {"SimpleCrossAttnDownBlock2D"}}}), HasSubstr("down_block_types is"));
  EXPECT_THAT(error_of_unet({{"transformer_layers_per_block", {{1, 2}, {1}, {1}, {1}}}}),
              HasSubstr("transformer_layers_per_block is [[1,2]"));
  EXPECT_THAT(error_of_unet({{"addition_time_embed_dim", nullptr}}, sdxl_unet_config()),
              HasSubstr("addition_time_embed_dim is missing"));
}

TEST(UNet2DConditionConfig, NamesSizesThatDoNotFitEachOther) {
  EXPECT_THAT(error_of_unet({{"attention_head_dim", 7}}), HasSubstr("number of heads, is [7,7,7,7]"));
  EXPECT_THAT(error_of_unet({{"attention_head_dim", {5, 10}}}), HasSubstr("one for each of block_out_channels"));
  EXPECT_THAT(error_of_unet({{"block_out_channels", {320, 640}}}), HasSubstr("down_block_types are 4, expected 2"));
  EXPECT_THAT(error_of_unet({{"norm_num_groups", 48}}), HasSubstr("multiples of norm_num_groups, which is 48"));
  EXPECT_THAT(error_of_unet({{"freq_shift", 160}}), HasSubstr("freq_shift is 160, expected 0 to 159"));
  EXPECT_THAT(error_of_unet({{"downsample_padding", 2}}), HasSubstr("downsample_padding is 2"));
}

}  // namespace
}  // namespace headroom
