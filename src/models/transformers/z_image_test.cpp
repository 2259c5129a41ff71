#include "models/transformers/z_image.hpp"

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

std::string error_of_z_image(const nlohmann::json& changes) {
  nlohmann::json config = z_image_config();
  config.update(changes);
  return error_of([&] { static_cast<void>(parse_z_image_config(config)); });
}

TEST(ZImageConfig, ReadsTheDefaultsOfTheClass) {
  const ZImageConfig plain = parse_z_image_config({{"_class_name", kZImageTransformer}});
  const ZImageConfig published = parse_z_image_config(z_image_config());
  EXPECT_EQ(plain.dim, published.dim);
  EXPECT_EQ(plain.head_dim(), 128);
  EXPECT_EQ(plain.feed_forward_width(), 10'240);
  EXPECT_EQ(plain.modulation_channels(), 256);
  EXPECT_EQ(plain.token_channels(), 64);
  EXPECT_EQ(plain.axes_dims, published.axes_dims);
  EXPECT_EQ(
      parse_z_image_config({{"_class_name", kZImageTransformer}, {"dim", 20}, {"n_heads", 2}, {"axes_dims", {2, 4, 4}}})
          .feed_forward_width(),
      53)
      << "rounded down";
}

TEST(ZImageConfig, NamesWhatIsNotSupported) {
  EXPECT_THAT(error_of_z_image({{"_class_name", "FluxTransformer2DModel"}}), HasSubstr("ZImageTransformer2DModel"));
  EXPECT_THAT(error_of_z_image({{"all_patch_size", {2, 4}}}), HasSubstr("all_patch_size is [2,4], expected [2]"));
  EXPECT_THAT(error_of_z_image({{"siglip_feat_dim", 1152}}), HasSubstr("siglip_feat_dim is 1152"));
  EXPECT_THAT(error_of_z_image({{"qk_norm", false}}), HasSubstr("qk_norm is false"));
  EXPECT_THAT(error_of_z_image({{"n_heads", 31}}), HasSubstr("dim is 3840, expected a multiple of n_heads"));
  EXPECT_THAT(error_of_z_image({{"axes_dims", {32, 48, 46}}}), HasSubstr("axes_dims add up to 126, expected 128"));
  EXPECT_THAT(error_of_z_image({{"axes_dims", {64, 64}}}), HasSubstr("axes_dims has 2 sizes, expected 3"));
}

TEST(ZImage, HasTheParametersAndNamesOfThePublishedModel) {
  const ComponentClass kind = z_image_transformer_class();
  const ComponentPass& pass = kind.passes.front();
  const nlohmann::json config = z_image_config();
  const InputShapes shapes = pass.shapes(config, {.batch = 1, .height = 1024, .width = 768, .text_tokens = 6});
  EXPECT_EQ(shapes.at("img_ids"), (Shape{64 * 48, 3}));
  const Graph graph = pass.build(config, shapes, f32_params());
  verify(graph);
  constexpr std::int64_t kDim = 3840, kPlain = 4 * kDim * kDim + 3 * kDim * 10'240 + 4 * kDim + 2 * 128,
                         kModulation = 4 * kDim * (256 + 1);
  constexpr std::int64_t kTime = 1024 * (256 + 1) + 256 * (1024 + 1), kText = 2560 + kDim * (2560 + 1),
                         kEnds = kDim * (64 + 1) + 64 * (kDim + 1) + kDim * (256 + 1) + 2 * kDim;
  EXPECT_EQ(count_params(graph), 34 * kPlain + 32 * kModulation + kTime + kText + kEnds);
  EXPECT_EQ(graph.blocks().size(), 32U) << "the text's own do not depend on the image";
  std::int64_t modulation = 0;
  for (const ValueId param : graph.values_of(ValueKind::kParam))
    if (kind.is_modulation(graph.value(param).name)) modulation += graph.type(param).shape.numel();
  EXPECT_EQ(modulation, (32 * 4 + 1) * kDim * 256);
  EXPECT_NE(graph.find(ValueKind::kParam, "context_refiner.1.attention.to_out.0.weight"), kNoValue);
  EXPECT_NE(graph.find(ValueKind::kParam, "all_final_layer.2-1.adaLN_modulation.1.bias"), kNoValue);
}

/// A text of a multiple of 32 tokens has no padding, but checkpoints hold the token for it.
TEST(ZImage, ReadsTokensOfPaddingThatItDoesNotNeed) {
  const ComponentPass pass = z_image_transformer_class().passes.front();
  const nlohmann::json config = z_image_config();
  const InputShapes shapes = pass.shapes(config, {.batch = 1, .height = 1024, .width = 1024, .text_tokens = 64});
  const Graph graph = pass.build(config, shapes, f32_params());
  EXPECT_NE(graph.find(ValueKind::kParam, "x_pad_token"), kNoValue);
  EXPECT_NE(graph.find(ValueKind::kParam, "cap_pad_token"), kNoValue);
}

}  // namespace
}  // namespace headroom
