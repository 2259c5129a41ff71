#include "models/transformers/qwen_image.hpp"

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

std::string error_of_qwen_image(const nlohmann::json& changes) {
  nlohmann::json config = qwen_image_config();
  config.update(changes);
  return error_of([&] { static_cast<void>(parse_qwen_image_config(config)); });
}

TEST(QwenImageConfig, ReadsTheDefaultsOfTheClass) {
  const QwenImageConfig plain = parse_qwen_image_config({{"_class_name", kQwenImageTransformer}});
  const QwenImageConfig published = parse_qwen_image_config(qwen_image_config());
  EXPECT_EQ(plain.dim(), 3072);
  EXPECT_EQ(published.dim(), 3072);
  EXPECT_EQ(plain.token_channels(), 64);
  EXPECT_EQ(plain.axes_dims_rope, published.axes_dims_rope);
}

TEST(QwenImageConfig, NamesWhatIsNotSupported) {
  EXPECT_THAT(error_of_qwen_image({{"_class_name", "FluxTransformer2DModel"}}),
              HasSubstr("QwenImageTransformer2DModel"));
  EXPECT_THAT(error_of_qwen_image({{"guidance_embeds", true}}), HasSubstr("guidance_embeds is true, expected false"));
  EXPECT_THAT(error_of_qwen_image({{"zero_cond_t", true}}), HasSubstr("zero_cond_t is true"));
  EXPECT_THAT(error_of_qwen_image({{"use_layer3d_rope", true}}), HasSubstr("use_layer3d_rope is true"));
  EXPECT_THAT(error_of_qwen_image({{"axes_dims_rope", {16, 56, 54}}}), HasSubstr("axes_dims_rope add up to 126"));
  EXPECT_THAT(error_of_qwen_image({{"axes_dims_rope", {64, 64}}}), HasSubstr("axes_dims_rope has 2 sizes, expected 3"));
  EXPECT_THAT(error_of_qwen_image({{"num_layers", 0}}), HasSubstr("num_layers is 0"));
}

TEST(QwenImage, HasTheParametersAndNamesOfThePublishedModel) {
  const ComponentClass kind = qwen_image_transformer_class();
  const ComponentPass& pass = kind.passes.front();
  const nlohmann::json config = qwen_image_config();
  const InputShapes shapes = pass.shapes(config, {.batch = 1, .height = 1328, .width = 1328, .text_tokens = 6});
  EXPECT_EQ(shapes.at("img_ids"), (Shape{83 * 83, 3}));
  const Graph graph = pass.build(config, shapes, f32_params());
  verify(graph);
  EXPECT_EQ(count_params(graph), 20'430'401'088);
  EXPECT_EQ(graph.blocks().size(), 60U);
  std::int64_t modulation = 0;
  for (const ValueId param : graph.values_of(ValueKind::kParam))
    if (kind.is_modulation(graph.value(param).name)) modulation += graph.type(param).shape.numel();
  EXPECT_EQ(modulation, (60 * 2 * 6 + 2) * 3072LL * 3072);
  EXPECT_NE(graph.find(ValueKind::kParam, "transformer_blocks.59.txt_mod.1.bias"), kNoValue);
  EXPECT_NE(graph.find(ValueKind::kParam, "txt_norm.weight"), kNoValue);
}

/// The last block computes no text after its keys and values, but checkpoints hold the weights for it.
TEST(QwenImage, ReadsWeightsOfTextInTheLastBlock) {
  const ComponentPass pass = qwen_image_transformer_class().passes.front();
  const nlohmann::json config = qwen_image_config();
  const Graph graph = pass.build(config, pass.shapes(config, {.batch = 1, .height = 32, .width = 32}), f32_params());
  EXPECT_NE(graph.find(ValueKind::kParam, "transformer_blocks.59.txt_mlp.net.2.weight"), kNoValue);
}

}  // namespace
}  // namespace headroom
