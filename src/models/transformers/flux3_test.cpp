#include "models/transformers/flux3.hpp"

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

std::string error_of_flux3(const nlohmann::json& changes) {
  nlohmann::json config = flux3_klein_config();
  config.update(changes);
  return error_of([&] { static_cast<void>(parse_flux3_config(config)); });
}

std::string error_of_flux2(const nlohmann::json& changes) {
  nlohmann::json config = flux2_klein_config();
  config.update(changes);
  return error_of([&] { static_cast<void>(parse_flux2_config(config)); });
}

TEST(Flux3Config, ReadsTheDefaultsOfTheClass) {
  const Flux3Config plain = parse_flux3_config({{"_class_name", kFlux3Transformer}});
  const Flux3Config published = parse_flux3_config(flux3_klein_base_config());
  EXPECT_EQ(plain.dim(), 3072);
  EXPECT_EQ(plain.feed_forward_width(), 9216);
  EXPECT_EQ(plain.joint_attention_dim, published.joint_attention_dim);
  EXPECT_EQ(plain.num_single_layers, published.num_single_layers);
  EXPECT_FALSE(plain.flow_map);
  EXPECT_TRUE(parse_flux3_config(flux3_klein_config()).flow_map);
  const Flux2Config flux2 = parse_flux2_config({{"_class_name", kFlux2Transformer}});
  EXPECT_EQ(flux2.dim(), 6144);
  EXPECT_EQ(flux2.out_channels, 128);
  EXPECT_TRUE(flux2.guidance_embeds);
}

TEST(Flux3Config, NamesWhatIsNotSupported) {
  EXPECT_THAT(error_of_flux3({{"_class_name", "FluxTransformer2DModel"}}), HasSubstr("Flux3Transformer2DModel"));
  EXPECT_THAT(error_of_flux3({{"axes_dims_rope", {32, 32, 32}}}), HasSubstr("axes_dims_rope add up to 96"));
  EXPECT_THAT(error_of_flux3({{"axes_dims_rope", {64, 32, 32}}}), HasSubstr("axes_dims_rope has 3 sizes, expected 4"));
  EXPECT_THAT(error_of_flux3({{"timestep_channels", 255}}), HasSubstr("timestep_channels is 255"));
  EXPECT_THAT(error_of_flux3({{"mlp_ratio", 0}}), HasSubstr("mlp_ratio is 0"));
  EXPECT_THAT(error_of_flux3({{"num_attention_heads", 4096}, {"attention_head_dim", 1 << 19}, {"axes_dims_rope", {1}}}),
              HasSubstr("wide"));
  EXPECT_THAT(error_of_flux3({{"flow_map", 1}}), HasSubstr("flow_map"));
  EXPECT_THAT(error_of_flux2({{"patch_size", 2}}), HasSubstr("patch_size is 2"));
  EXPECT_THAT(error_of_flux2({{"rope_theta", -1}}), HasSubstr("rope_theta is -1"));
}

/// The parameters of a pass of the first kind, at a small size.
std::int64_t parameters_of(const ComponentClass& kind, const nlohmann::json& config, std::size_t pass) {
  const ComponentPass& built = kind.passes[pass];
  const Graph graph = built.build(config, built.shapes(config, {.batch = 1, .height = 32, .width = 32}), f32_params());
  verify(graph);
  return count_params(graph);
}

TEST(Flux3, HasTheParametersOfThePublishedModels) {
  constexpr std::int64_t kDim = 3072, kBlock = (4 + 3 * 3) * kDim * kDim + 2 * 128, kModulation = 3 * kDim * kDim;
  constexpr std::int64_t kTime = 256 * kDim + kDim * kDim,
                         kEnds = 128 * kDim + 20'480 * kDim + 2 * kDim * kDim + 128 * kDim;
  const ComponentClass kind = flux3_transformer_class();
  const std::int64_t base = parameters_of(kind, flux3_klein_base_config(), 0);
  EXPECT_EQ(base, (28 + 2 * 5) * kBlock + 4 * kModulation + kTime + kEnds);
  EXPECT_EQ(parameters_of(kind, flux3_klein_config(), 0), base + kTime);
  EXPECT_EQ(parameters_of(kind, flux3_klein_base_config(), 1), base + 5 * kBlock + 2 * kModulation + 128 * kDim)
      << "with references";
}

TEST(Flux3, CountsTheImagesStreamAsItsBlocks) {
  const ComponentPass pass = flux3_transformer_class().passes.front();
  const nlohmann::json config = flux3_klein_config();
  const Graph graph = pass.build(config, pass.shapes(config, {.batch = 1, .height = 32, .width = 32}), f32_params());
  EXPECT_EQ(graph.blocks().size(), 5U + 28U);
  EXPECT_NE(graph.find(ValueKind::kParam, "single_transformer_blocks.27.attn.to_out.0.weight"), kNoValue);
  EXPECT_NE(graph.find(ValueKind::kParam, "target_timestep_embedder.linear_2.weight"), kNoValue);
}

TEST(Flux2, HasTheParametersOfKlein) {
  constexpr std::int64_t kDim = 3072;
  const ComponentPass pass = flux2_transformer_class().passes.front();
  const nlohmann::json config = flux2_klein_config();
  const Graph graph = pass.build(config, pass.shapes(config, {.batch = 1, .height = 32, .width = 32}), f32_params());
  constexpr std::int64_t kDouble = 2 * ((4 + 9) * kDim * kDim + 2 * 128), kSingle = (9 + 4) * kDim * kDim + 2 * 128;
  EXPECT_EQ(count_params(graph), 5 * kDouble + 20 * kSingle + (2 * 6 + 3 + 2) * kDim * kDim + 256 * kDim + kDim * kDim +
                                     128 * kDim + 7680 * kDim + 128 * kDim);
}

}  // namespace
}  // namespace headroom
