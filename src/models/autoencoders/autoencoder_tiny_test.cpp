#include "models/autoencoders/autoencoder_tiny.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "base/test_util.hpp"
#include "ir/interpreter.hpp"
#include "ir/verify.hpp"
#include "models/autoencoders/autoencoder.hpp"
#include "models/autoencoders/autoencoder_kl.hpp"
#include "models/test_util.hpp"

namespace headroom {
namespace {

using testing::HasSubstr;

std::string tiny_config_error(const char* key, const nlohmann::json& value) {
  nlohmann::json config = taesd_config();
  config[key] = value;
  return error_of([&] { static_cast<void>(parse_autoencoder_tiny_config(config)); });
}

Graph build_taesd(std::string_view pass, const PassSize& size) {
  const nlohmann::json config = taesd_config();
  const ComponentPass& found = pass_named(class_of(config), pass);
  Graph graph = found.build(config, found.shapes(config, size), f32_params());
  verify(graph);
  return graph;
}

TEST(AutoencoderTiny, NamesWhatIsNotSupported) {
  EXPECT_THAT(tiny_config_error("_class_name", "AutoencoderKL"), HasSubstr("expected \"AutoencoderTiny\""));
  EXPECT_THAT(tiny_config_error("act_fn", "silu"), HasSubstr("act_fn is \"silu\", expected \"relu\""));
  EXPECT_THAT(tiny_config_error("upsample_fn", "bilinear"), HasSubstr("upsample_fn is \"bilinear\""));
  EXPECT_THAT(tiny_config_error("upsampling_scaling_factor", 4), HasSubstr("upsampling_scaling_factor is 4"));
  EXPECT_THAT(tiny_config_error("encoder_block_out_channels", {32, 64, 64, 64}), HasSubstr("expected equal widths"));
  EXPECT_THAT(tiny_config_error("decoder_block_out_channels", {64, 64}), HasSubstr("has 2 widths"));
  nlohmann::json uneven = taesd_config();
  uneven["num_encoder_blocks"] = {1, 3};
  uneven["encoder_block_out_channels"] = {64, 64};
  EXPECT_THAT(error_of([&] { static_cast<void>(parse_autoencoder_tiny_config(uneven)); }),
              HasSubstr("2 blocks in num_encoder_blocks and 4 in num_decoder_blocks"));
}

TEST(AutoencoderTiny, HasTheParametersOfTaesd) {
  const Graph decoder = build_taesd("decode", {.batch = 1, .height = 64, .width = 64});
  const Graph encoder = build_taesd("encode", {.batch = 1, .height = 64, .width = 64});
  EXPECT_EQ(count_params(decoder), 1'222'531);
  EXPECT_EQ(count_params(encoder), 1'222'532);
  // The layer numbers most likely to be wrong: after the decoder's own ReLU, and after an upsampling layer.
  EXPECT_NE(decoder.find(ValueKind::kParam, "decoder.layers.2.conv.0.weight"), kNoValue);
  EXPECT_NE(decoder.find(ValueKind::kParam, "decoder.layers.16.weight"), kNoValue);
  EXPECT_EQ(decoder.find(ValueKind::kParam, "decoder.layers.16.bias"), kNoValue);
  EXPECT_NE(decoder.find(ValueKind::kParam, "decoder.layers.18.bias"), kNoValue);
  EXPECT_NE(encoder.find(ValueKind::kParam, "encoder.layers.14.bias"), kNoValue);
  EXPECT_EQ(encoder.find(ValueKind::kParam, "encoder.layers.10.bias"), kNoValue);
}

/// The scaling of latents before the decoder and after the encoder, by the numbers of config.json, for two latents.
TEST(Autoencoder, ScalesLatentsAsTheDenoiserHasThem) {
  const auto scaled = [](nlohmann::json config) {
    config["scaling_factor"] = 0.5;
    config["shift_factor"] = 0.25;
    const Autoencoder vae = parse_autoencoder(config);
    Graph plain("plain"), through("through");
    for (Graph* graph : {&plain, &through}) {
      Builder b(*graph);
      const ValueId z = graph->add_input("z", TensorType{.shape = {1, vae.latent_channels, 1, 1}});
      const ValueId in = graph == &plain ? b.add_scalar(b.mul_scalar(z, 2), 0.25) : z;
      nlohmann::json unit = config;
      if (graph == &plain) {
        unit["scaling_factor"] = 1;
        unit["shift_factor"] = 0;
      }
      const ValueId image = parse_autoencoder(unit).decode(b, in, f32_params());
      const ValueId latents = parse_autoencoder(unit).encode(b, image, f32_params());
      graph->add_output("image", image);
      graph->add_output("latents", graph == &plain ? b.mul_scalar(b.add_scalar(latents, -0.25), 0.5) : latents);
    }
    NamedTensors inputs, params;
    HostTensor z(DType::kF32, {1, vae.latent_channels, 1, 1});
    for (std::int64_t i = 0; i < z.numel(); ++i) z.set(i, 0.3 * static_cast<double>(i) - 0.4);
    inputs.emplace("z", z);
    for (const ValueId param : plain.values_of(ValueKind::kParam)) {
      HostTensor weight(DType::kF32, plain.type(param).shape);
      for (std::int64_t i = 0; i < weight.numel(); ++i) weight.set(i, 0.02 * static_cast<double>(i % 7 - 3));
      params.emplace(plain.value(param).name, weight);
    }
    const OracleResult expected = interpret(plain, inputs, params), got = interpret(through, inputs, params);
    return std::max(relative_l2(got.outputs.at("image"), expected.outputs.at("image")),
                    relative_l2(got.outputs.at("latents"), expected.outputs.at("latents")));
  };
  EXPECT_LE(scaled(taesd_config()), 1e-12);
  EXPECT_LE(scaled({{"_class_name", "AutoencoderKL"}, {"norm_num_groups", 8}}), 1e-12);
}

TEST(Autoencoder, IsOfOneOfTwoClasses) {
  const Autoencoder tiny = parse_autoencoder(taesd_config()), large = parse_autoencoder(flux_vae_config());
  EXPECT_EQ(tiny.latent_channels, 4);
  EXPECT_EQ(tiny.scale, 8);
  EXPECT_EQ(large.latent_channels, 16);
  EXPECT_EQ(large.scale, 8);
  EXPECT_THAT(
      error_of([] {
        static_cast<void>(parse_autoencoder({{"_class_name", "UNet2DModel"}}));
      }),
      HasSubstr(
          "expected \"AutoencoderKL\", \"AutoencoderKLFlux2\", \"AutoencoderKLQwenImage\" or \"AutoencoderTiny\""));
}

}  // namespace
}  // namespace headroom
