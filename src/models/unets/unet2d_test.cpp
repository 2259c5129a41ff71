#include "models/unets/unet2d.hpp"

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

nlohmann::json changed_pixel_unet(const nlohmann::json& changes) {
  nlohmann::json config = pixel_unet_config();
  config.update(changes);
  return config;
}

std::string error_of_pixel_unet(const nlohmann::json& changes) {
  return error_of([&] { static_cast<void>(parse_unet2d_config(changed_pixel_unet(changes))); });
}

Graph pixel_unet(const nlohmann::json& changes = nlohmann::json::object()) {
  const nlohmann::json config = changed_pixel_unet(changes);
  Graph graph =
      unet2d_class().passes.front().build(config, {{"sample", {2, 3, 16, 8}}, {"timestep", {2}}}, f32_params());
  verify(graph);
  return graph;
}

bool has_param(const Graph& graph, std::string_view name) { return graph.find(ValueKind::kParam, name) != kNoValue; }

TEST(UNet2D, HasTheParametersOfThePixelUNet) {
  const Graph graph = pixel_unet();
  EXPECT_EQ(count_params(graph), 691'779'075);
  EXPECT_EQ(graph.type(graph.outputs()[0].value).shape, (Shape{2, 3, 16, 8}));
}

TEST(UNet2D, AttendsWhereItsBlocksSay) {
  const Graph graph = pixel_unet();
  EXPECT_FALSE(has_param(graph, "down_blocks.0.attentions.0.to_q.bias"));
  EXPECT_TRUE(has_param(graph, "down_blocks.1.attentions.1.to_q.bias"));
  EXPECT_TRUE(has_param(graph, "up_blocks.2.attentions.2.group_norm.weight"));
  EXPECT_FALSE(has_param(graph, "up_blocks.3.attentions.0.to_q.bias"));
  EXPECT_TRUE(has_param(graph, "mid_block.attentions.0.to_out.0.bias"));
  EXPECT_FALSE(has_param(pixel_unet({{"add_attention", false}}), "mid_block.attentions.0.to_q.bias"));
}

TEST(UNet2D, NormsTheMiddleAsItsResnetsOrAsConfigured) {
  constexpr const char* kNorm = "mid_block.attentions.0.group_norm.weight";
  EXPECT_TRUE(has_param(pixel_unet(), kNorm));
  EXPECT_FALSE(has_param(pixel_unet({{"resnet_time_scale_shift", "scale_shift"}}), kNorm));
  EXPECT_TRUE(has_param(pixel_unet({{"resnet_time_scale_shift", "scale_shift"}, {"attn_norm_num_groups", 8}}), kNorm));
}

TEST(UNet2D, RefusesSizesThatCannotBeHalved) {
  const ComponentPass pass = unet2d_class().passes.front();
  EXPECT_THROW((void)pass.build(pixel_unet_config(), {{"sample", {1, 3, 12, 8}}, {"timestep", {1}}}, f32_params()),
               Error);
  EXPECT_THROW((void)pass.build(pixel_unet_config(), {{"sample", {1, 3, 16, 8}}, {"timestep", {2}}}, f32_params()),
               Error);
}

TEST(UNet2DConfig, ReadsDefaultsAndNull) {
  const UNet2DConfig plain = parse_unet2d_config({{"_class_name", "UNet2DModel"}});
  EXPECT_EQ(plain.block_out_channels, (std::vector<std::int64_t>{224, 448, 672, 896}));
  EXPECT_EQ(plain.heads(1), 56);
  EXPECT_EQ(parse_unet2d_config(changed_pixel_unet({{"attention_head_dim", nullptr}})).heads(1), 1);
  EXPECT_TRUE(parse_unet2d_config(changed_pixel_unet({{"time_embedding_type", "fourier"}})).has_fourier_time);
}

TEST(UNet2DConfig, NamesWhatIsNotSupportedOrDoesNotFit) {
  EXPECT_THAT(error_of_pixel_unet({{"time_embedding_type", "learned"}}),
              HasSubstr("time_embedding_type is \"learned\""));
  EXPECT_THAT(error_of_pixel_unet({{"class_embed_type", "identity"}}), HasSubstr("class_embed_type is \"identity\""));
  EXPECT_THAT(error_of_pixel_unet({{"downsample_type", "resnet"}}), HasSubstr("downsample_type is \"resnet\""));
  EXPECT_THAT(error_of_pixel_unet({{"down_block_types", {"AttnSkipDownBlock2D"}}}), HasSubstr("down_block_types is"));
  EXPECT_THAT(error_of_pixel_unet({{"attention_head_dim", 100}}), HasSubstr("attention_head_dim is 100"));
  EXPECT_THAT(error_of_pixel_unet({{"attn_norm_num_groups", 100}}), HasSubstr("attn_norm_num_groups is 100"));
}

}  // namespace
}  // namespace headroom
