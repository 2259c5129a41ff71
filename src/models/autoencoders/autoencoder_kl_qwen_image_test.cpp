#include "models/autoencoders/autoencoder_kl_qwen_image.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "base/test_util.hpp"
#include "ir/interpreter.hpp"
#include "ir/verify.hpp"
#include "models/autoencoders/autoencoder.hpp"
#include "models/test_util.hpp"

namespace headroom {
namespace {

using testing::HasSubstr;

nlohmann::json qwen_vae_with(const nlohmann::json& changes) {
  nlohmann::json config = qwen_image_vae_config();
  config.update(changes);
  return config;
}

std::string error_of_qwen_vae(const nlohmann::json& changes) {
  return error_of([&] { static_cast<void>(parse_autoencoder_kl_qwen_image_config(qwen_vae_with(changes))); });
}

Graph qwen_vae_graph(std::string_view pass, const PassSize& size) {
  const nlohmann::json config = qwen_image_vae_config();
  const ComponentPass& found = pass_named(class_of(config), pass);
  Graph graph = found.build(config, found.shapes(config, size), f32_params());
  verify(graph);
  return graph;
}

TEST(AutoencoderKLQwenImageConfig, NamesWhatIsNotSupported) {
  EXPECT_EQ(parse_autoencoder_kl_qwen_image_config(qwen_image_vae_config()).scale(), 8);
  EXPECT_THAT(error_of_qwen_vae({{"_class_name", "AutoencoderKL"}}), HasSubstr("expected \"AutoencoderKLQwenImage\""));
  EXPECT_THAT(error_of_qwen_vae({{"attn_scales", {0.5}}}), HasSubstr("attn_scales is [0.5], expected []"));
  EXPECT_THAT(error_of_qwen_vae({{"latents_std", {1.5}}}), HasSubstr("latents_std is [1.5], expected a list of 16"));
  EXPECT_THAT(error_of_qwen_vae({{"latents_mean", nullptr}}), HasSubstr("latents_mean is missing"));
  EXPECT_THAT(error_of_qwen_vae({{"z_dim", 2}, {"latents_mean", {0, 0}}, {"latents_std", {1, 0}}}),
              HasSubstr("latents_std is [1,0], expected numbers above 0"));
  EXPECT_THAT(error_of_qwen_vae({{"base_dim", 95}, {"dim_mult", {1, 3, 4, 4}}}), HasSubstr("expected even widths"));
  EXPECT_THAT(error_of_qwen_vae({{"temperal_downsample", {false}}}), HasSubstr("expected a list of 3"));
}

TEST(AutoencoderKLQwenImage, HasTheParametersOfTheImageHalf) {
  const Graph decoder = qwen_vae_graph("decode", {.batch = 1, .height = 64, .width = 40});
  const Graph encoder = qwen_vae_graph("encode", {.batch = 1, .height = 64, .width = 40});
  EXPECT_EQ(decoder.type(decoder.outputs()[0].value).shape, (Shape{1, 3, 64, 40}));
  EXPECT_EQ(encoder.type(encoder.outputs()[0].value).shape, (Shape{1, 16, 8, 5}));
  EXPECT_EQ(decoder.type(decoder.find(ValueKind::kParam, "decoder.up_blocks.1.resnets.0.conv1.weight")).shape,
            (Shape{384, 192, 3, 3, 3}));
  EXPECT_EQ(decoder.type(decoder.find(ValueKind::kParam, "decoder.up_blocks.2.upsamplers.0.resample.1.weight")).shape,
            (Shape{96, 192, 3, 3}));
  EXPECT_NE(encoder.find(ValueKind::kParam, "encoder.down_blocks.10.conv2.weight"), kNoValue);
  EXPECT_TRUE(autoencoder_kl_qwen_image_class().is_unread("encoder.down_blocks.5.time_conv.weight"));
}

/// No op of the program has time: convolutions are 2D, and weights with time are sliced before anything reads them.
TEST(AutoencoderKLQwenImage, ComputesNothingOverTime) {
  const Graph graph = qwen_vae_graph("decode", {.batch = 1, .height = 64, .width = 64});
  for (const Node& node : graph.nodes()) {
    const bool is_of_weights =
        std::ranges::all_of(node.inputs, [&](ValueId input) { return graph.value(input).kind == ValueKind::kParam; });
    for (const ValueId input : node.inputs)
      EXPECT_TRUE(is_of_weights || node.op == Op::kReshape || graph.type(input).shape.rank() <= 4) << describe(node);
  }
}

TEST(Autoencoder, ScalesLatentsByChannel) {
  const nlohmann::json config = qwen_vae_with({{"base_dim", 2},
                                               {"z_dim", 2},
                                               {"dim_mult", {1}},
                                               {"temperal_downsample", nlohmann::json::array()},
                                               {"latents_mean", {0.5, -1}},
                                               {"latents_std", {2, 4}}});
  const Autoencoder vae = parse_autoencoder(config);
  Graph graph("g");
  Builder b(graph);
  const ValueId z = graph.add_input("z", {.shape = {1, 2, 1, 1}});
  graph.add_output("image", vae.decode(b, z, f32_params()));
  Graph plain("plain");
  Builder of_plain(plain);
  const ValueId own = plain.add_input("z", {.shape = {1, 2, 1, 1}});
  plain.add_output("image", build_autoencoder_kl_qwen_image_decode(
                                of_plain, parse_autoencoder_kl_qwen_image_config(config), own, f32_params()));
  NamedTensors params;
  for (const ValueId param : graph.values_of(ValueKind::kParam)) {
    HostTensor tensor(DType::kF32, graph.type(param).shape);
    for (std::int64_t i = 0; i < tensor.numel(); ++i) tensor.set(i, 0.25 * static_cast<double>(i % 5) - 0.375);
    params.emplace(graph.value(param).name, tensor);
  }
  const auto latents = [](double first, double second) {
    HostTensor tensor(DType::kF32, {1, 2, 1, 1});
    tensor.set(0, first);
    tensor.set(1, second);
    return tensor;
  };
  const HostTensor image = interpret(graph, {{"z", latents(0.25, 0.5)}}, params).outputs.at("image");
  const HostTensor expected = interpret(plain, {{"z", latents(1, 1)}}, params).outputs.at("image");
  for (std::int64_t i = 0; i < image.numel(); ++i) EXPECT_EQ(image.at(i), expected.at(i));
}

}  // namespace
}  // namespace headroom
