#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "models/transformers/flux.hpp"

namespace headroom {
namespace {

std::string error_of_flux(const nlohmann::json& config) {
  try {
    static_cast<void>(parse_flux_config(config));
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

nlohmann::json with(const char* key, const nlohmann::json& value) {
  nlohmann::json config = flux_dev_config();
  config[key] = value;
  return config;
}

TEST(FluxConfig, ReadsFluxDev) {
  const FluxConfig config = parse_flux_config(flux_dev_config());
  EXPECT_EQ(config.dim(), 3072);
  EXPECT_EQ(config.out_channels, 64);
  EXPECT_TRUE(config.guidance_embeds);
}

TEST(FluxConfig, MissingKeysAreTheClasssDefaultsAndOutChannelsFollowIn) {
  nlohmann::json config = {{"_class_name", "FluxTransformer2DModel"}, {"in_channels", 12}, {"out_channels", nullptr}};
  const FluxConfig flux = parse_flux_config(config);
  EXPECT_EQ(flux.out_channels, 12);
  EXPECT_EQ(flux.num_layers, 19);
  EXPECT_FALSE(flux.guidance_embeds);
}

TEST(FluxConfig, NamesWhatCannotBeAFlux) {
  EXPECT_THAT(error_of_flux(with("_class_name", "UNet")), testing::HasSubstr("_class_name"));
  EXPECT_THAT(error_of_flux(with("num_attention_heads", 0)), testing::HasSubstr("num_attention_heads is 0"));
  EXPECT_THAT(error_of_flux(with("num_layers", -1)), testing::HasSubstr("num_layers is -1"));
  EXPECT_THAT(error_of_flux(with("in_channels", "64")), testing::HasSubstr("in_channels"));
  EXPECT_THAT(error_of_flux(with("in_channels", std::int64_t{1} << 60)), testing::HasSubstr("in_channels"));
  EXPECT_THAT(error_of_flux(with("in_channels", ~std::uint64_t{0})), testing::HasSubstr("18446744073709551615"));
  nlohmann::json wide = with("num_attention_heads", 4096);
  wide["attention_head_dim"] = 1 << 20;
  EXPECT_THAT(error_of_flux(wide), testing::HasSubstr("times attention_head_dim is 4294967296"));
  EXPECT_THAT(error_of_flux(with("patch_size", 2)), testing::HasSubstr("patch_size is 2"));
  EXPECT_THAT(error_of_flux(with("axes_dims_rope", {16, 56, 55})), testing::HasSubstr("even"));
  EXPECT_THAT(error_of_flux(with("axes_dims_rope", {16, 56})), testing::HasSubstr("add up to 72"));
  EXPECT_THAT(error_of_flux(with("guidance_embeds", 1)), testing::HasSubstr("guidance_embeds"));
}

TEST(Flux, ParamsCarryTheCheckpointsNamesAndTypes) {
  FluxConfig config = parse_flux_config(flux_dev_config());
  config.num_layers = 1;
  config.num_single_layers = 1;
  const ParamSource params{.dtype = [](std::string_view) { return DType::kBF16; }};
  const Graph graph = build_flux_forward(config, {.batch = 1, .image_tokens = 4, .text_tokens = 2}, params);
  const ValueId weight = graph.find(ValueKind::kParam, "single_transformer_blocks.0.proj_out.weight");
  ASSERT_NE(weight, kNoValue);
  EXPECT_EQ(graph.type(weight), (TensorType{.dtype = DType::kBF16, .shape = {3072, 15360}}));
  EXPECT_NE(graph.find(ValueKind::kParam, "transformer_blocks.0.attn.norm_added_k.weight"), kNoValue);
  EXPECT_EQ(graph.type(graph.outputs()[0].value).dtype, DType::kF32);
}

}  // namespace
}  // namespace headroom
