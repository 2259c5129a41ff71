#include "models/autoencoders/autoencoder_kl.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "ir/verify.hpp"
#include "models/component.hpp"
#include "models/test_util.hpp"

namespace headroom {
namespace {

using testing::HasSubstr;

std::string error_of_config(nlohmann::json config, const char* key, const nlohmann::json& value) {
  config[key] = value;
  try {
    static_cast<void>(parse_autoencoder_kl_config(config));
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

/// The graph of one pass of FLUX.1's autoencoder, with a changed configuration.
Graph build(std::string_view pass, const PassSize& size, const nlohmann::json& changes = nlohmann::json::object(),
            const ParamSource& params = f32_params()) {
  nlohmann::json config = flux_vae_config();
  config.update(changes);
  const ComponentPass& found = pass_named(class_of(config), pass);
  Graph graph = found.build(config, found.shapes(config, size), params);
  verify(graph);
  return graph;
}

Shape shape_of(const Graph& graph, std::string_view output) {
  for (const Output& found : graph.outputs())
    if (found.name == output) return graph.type(found.value).shape;
  return {};
}

TEST(AutoencoderKLConfig, ReadsFluxsAndDefaults) {
  const AutoencoderKLConfig flux = parse_autoencoder_kl_config(flux_vae_config());
  EXPECT_EQ(flux.latent_channels, 16);
  EXPECT_EQ(flux.scale(), 8);
  EXPECT_FALSE(flux.use_quant_conv);
  EXPECT_EQ(flux.shift_factor, 0.1159);
  const AutoencoderKLConfig plain = parse_autoencoder_kl_config({{"_class_name", "AutoencoderKL"}});
  EXPECT_EQ(plain.block_out_channels, std::vector<std::int64_t>{64});
  EXPECT_EQ(plain.shift_factor, std::nullopt);
  EXPECT_TRUE(plain.use_post_quant_conv);
}

TEST(AutoencoderKLConfig, NamesWhatIsNotSupported) {
  const nlohmann::json flux = flux_vae_config();
  EXPECT_THAT(error_of_config(flux, "_class_name", "AutoencoderTiny"), HasSubstr("expected \"AutoencoderKL\""));
  EXPECT_THAT(error_of_config(flux, "act_fn", "relu"), HasSubstr("act_fn is \"relu\""));
  EXPECT_THAT(error_of_config(flux, "down_block_types", {"DownEncoderBlock2D", "AttnDownEncoderBlock2D"}),
              HasSubstr("expected \"DownEncoderBlock2D\" in every place"));
  EXPECT_THAT(error_of_config(flux, "norm_num_groups", 24), HasSubstr("multiples of norm_num_groups, which is 24"));
  EXPECT_THAT(error_of_config({{"_class_name", "AutoencoderKL"}}, "norm_num_groups", 7),  // a default is named too
              HasSubstr("block_out_channels is [64], expected multiples of norm_num_groups, which is 7"));
  EXPECT_THAT(error_of_config(flux, "block_out_channels", 128), HasSubstr("expected a list"));
  EXPECT_THAT(error_of_config(flux, "latent_channels", 0), HasSubstr("latent_channels is 0"));
  EXPECT_THAT(error_of_config(flux, "latents_mean", {0.5}), HasSubstr("latents_mean is [0.5], expected null"));
}

TEST(AutoencoderKL, HasTheParametersOfFlux) {
  const Graph decoder = build("decode", {.batch = 1, .height = 64, .width = 64});
  const Graph encoder = build("encode", {.batch = 1, .height = 64, .width = 64});
  EXPECT_EQ(count_params(decoder), 49'545'475);
  EXPECT_EQ(count_params(encoder), 34'274'208);
  EXPECT_NE(decoder.find(ValueKind::kParam, "decoder.up_blocks.2.resnets.0.conv_shortcut.weight"), kNoValue);
  EXPECT_NE(decoder.find(ValueKind::kParam, "decoder.mid_block.attentions.0.to_out.0.bias"), kNoValue);
  EXPECT_NE(encoder.find(ValueKind::kParam, "encoder.down_blocks.0.downsamplers.0.conv.weight"), kNoValue);
}

TEST(AutoencoderKL, GivesShapesOfOddSizes) {
  const Graph encoder = build("encode", {.batch = 2, .height = 45, .width = 37});
  EXPECT_EQ(shape_of(encoder, "mean"), (Shape{2, 16, 5, 4}));
  EXPECT_EQ(shape_of(encoder, "logvar"), (Shape{2, 16, 5, 4}));
  const Graph decoder = build("decode", {.batch = 1, .height = 40, .width = 56});
  EXPECT_EQ(shape_of(decoder, "decoded"), (Shape{1, 3, 40, 56}));
}

TEST(AutoencoderKL, CodesInTilesOnlyWhatIsLargerThanOne) {
  const nlohmann::json small_tiles = {{"sample_size", 64}};
  const Graph whole = build("decode-tiled", {.batch = 1, .height = 64, .width = 64}, small_tiles);
  EXPECT_EQ(whole.nodes().size(), build("decode", {.batch = 1, .height = 64, .width = 64}).nodes().size());
  const Graph tiled = build("decode-tiled", {.batch = 1, .height = 128, .width = 64}, small_tiles);
  EXPECT_GT(tiled.nodes().size(), 2 * whole.nodes().size());
  EXPECT_EQ(shape_of(tiled, "decoded"), (Shape{1, 3, 128, 64}));
}

TEST(AutoencoderKL, TakesTheNamesAndThe1x1ConvolutionsOfOlderCheckpoints) {
  const ParamSource old{.dtype = [](std::string_view) { return DType::kF16; },
                        .has = [](std::string_view name) { return name.find(".to_") == std::string_view::npos; },
                        .shape =
                            [](std::string_view) {
                              return Shape{512, 512, 1, 1};
                            }};
  const Graph graph = build("decode", {.batch = 1, .height = 64, .width = 64}, nlohmann::json::object(), old);
  const ValueId query = graph.find(ValueKind::kParam, "decoder.mid_block.attentions.0.query.weight");
  ASSERT_NE(query, kNoValue);
  EXPECT_EQ(graph.type(query), (TensorType{DType::kF16, {512, 512, 1, 1}}));
  EXPECT_EQ(graph.find(ValueKind::kParam, "decoder.mid_block.attentions.0.to_q.weight"), kNoValue);
}

TEST(Component, FindsThePassByWhatIsGivenOrByName) {
  const ComponentClass vae = autoencoder_kl_class();
  EXPECT_EQ(pass_for(vae, {{"latents", {1, 16, 8, 8}}}).name, "decode");
  EXPECT_EQ(pass_for(vae, {{"image", {1, 3, 64, 64}}, {"more", {1}}}).name, "encode");
  EXPECT_THROW((void)pass_for(vae, {{"x", {1}}}), Error);
  EXPECT_THROW((void)pass_named(vae, "decoded"), Error);
  const ComponentPass& decode = pass_named(vae, "decode");
  EXPECT_THROW((void)decode.build(flux_vae_config(), {{"latents", {1, 4, 8, 8}}}, f32_params()), Error)
      << "16 channels";
  EXPECT_THROW((void)decode.shapes(flux_vae_config(), {.batch = 1, .height = 60, .width = 64}), Error);
}

}  // namespace
}  // namespace headroom
