#include "models/text_encoders/t5_encoder.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "base/test_util.hpp"
#include "ir/interpreter.hpp"
#include "ir/verify.hpp"

namespace headroom {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const ParamSource kT5InF32{.dtype = [](std::string_view) { return DType::kF32; }};

nlohmann::json t5_with(nlohmann::json config, const nlohmann::json& changes) {
  config.update(changes);
  return config;
}

nlohmann::json small_t5() {
  return {{"architectures", {"T5EncoderModel"}},
          {"vocab_size", 11},
          {"d_model", 6},
          {"d_kv", 4},
          {"num_heads", 2},
          {"d_ff", 8},
          {"num_layers", 2}};
}

Graph encode(const nlohmann::json& config, const InputShapes& given, const ParamSource& params = kT5InF32) {
  Graph graph = t5_encoder_class().passes.front().build(config, given, params);
  verify(graph);
  return graph;
}

/// last_hidden_state of the graph, with weights that all differ.
HostTensor run(const Graph& graph, const NamedTensors& inputs) {
  NamedTensors params;
  for (const ValueId param : graph.values_of(ValueKind::kParam)) {
    HostTensor tensor(DType::kF32, graph.type(param).shape);
    for (std::int64_t i = 0; i < tensor.numel(); ++i)
      tensor.set(i, std::sin(static_cast<double>(i * i) + static_cast<double>(graph.value(param).name.size())));
    params.emplace(graph.value(param).name, tensor);
  }
  return interpret(graph, inputs, params).outputs.at("last_hidden_state");
}

HostTensor numbers(Shape shape, const std::vector<int>& values) {
  HostTensor tensor(DType::kI32, shape);
  for (std::size_t i = 0; i < values.size(); ++i) tensor.set(static_cast<std::int64_t>(i), values[i]);
  return tensor;
}

std::string error_of_t5(const nlohmann::json& changes) {
  return error_of([&] { static_cast<void>(parse_t5_config(t5_with(small_t5(), changes))); });
}

TEST(T5Config, ReadsXxlAndDefaults) {
  const T5Config xxl = parse_t5_config(t5_xxl_config());
  EXPECT_EQ(xxl.inner_dim(), 4096);
  EXPECT_EQ(xxl.activation, Op::kGeluTanh) << "gated-gelu is gelu_new";
  EXPECT_TRUE(xxl.is_gated);
  const T5Config plain = parse_t5_config({{"architectures", {"T5EncoderModel"}}});
  EXPECT_EQ(plain.d_model, 512);
  EXPECT_EQ(plain.activation, Op::kRelu);
  EXPECT_FALSE(plain.is_gated);
  EXPECT_EQ(parse_t5_config(t5_with(small_t5(), {{"feed_forward_proj", "gated-silu"}})).activation, Op::kSilu);
}

TEST(T5Config, NamesWhatIsNotSupported) {
  EXPECT_THAT(error_of_t5({{"architectures", {"T5Model"}}}),
              HasSubstr("architectures is [\"T5Model\"], expected \"T5EncoderModel\""));
  EXPECT_THAT(error_of_t5({{"feed_forward_proj", "gated-mish"}}),
              HasSubstr("feed_forward_proj is \"gated-mish\", expected one of relu, gelu"));
  EXPECT_THAT(error_of_t5({{"relative_attention_max_distance", 8}}),
              HasSubstr("relative_attention_max_distance is 8, expected 9 to"));
  EXPECT_THAT(error_of_t5({{"d_kv", 0}}), HasSubstr("d_kv is 0"));
}

TEST(T5Encoder, HasTheParametersOfXxl) {
  const Graph graph = encode(t5_xxl_config(), {{"input_ids", {1, 3}}});
  std::int64_t count = 0;
  for (const ValueId param : graph.values_of(ValueKind::kParam)) count += graph.type(param).shape.numel();
  EXPECT_EQ(count, 4'762'310'656);
  EXPECT_NE(graph.find(ValueKind::kParam, "encoder.block.23.layer.1.DenseReluDense.wi_1.weight"), kNoValue);
  EXPECT_EQ(graph.blocks().size(), 24U);
}

/// Distances at which FLUX's text encoder changes buckets.
TEST(T5Encoder, PutsDistancesInBuckets) {
  const T5Config config;
  std::vector<std::int64_t> steps;
  for (std::int64_t apart = 1; apart < 1000; ++apart)
    if (const std::int64_t bucket = t5_position_bucket(config, -apart); bucket != t5_position_bucket(config, 1 - apart))
      steps.push_back(apart);
  EXPECT_THAT(steps, ElementsAre(1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 23, 32, 46, 64, 91));
  EXPECT_EQ(t5_position_bucket(config, 0), 0);
  EXPECT_EQ(t5_position_bucket(config, -1000), 15);
  EXPECT_EQ(t5_position_bucket(config, 3), 19);
  EXPECT_EQ(t5_position_bucket(config, 1000), 31);
}

TEST(T5Encoder, SeesNoTokensThatAreMasked) {
  const HostTensor shorter =
      run(encode(small_t5(), {{"input_ids", {1, 3}}}), {{"input_ids", numbers({1, 3}, {4, 9, 2})}});
  const Graph graph = encode(small_t5(), {{"input_ids", {2, 5}}, {"attention_mask", {2, 5}}});
  const HostTensor ids = numbers({2, 5}, {4, 9, 2, 7, 7, 4, 9, 2, 7, 7});
  const HostTensor masked =
      run(graph, {{"input_ids", ids}, {"attention_mask", numbers({2, 5}, {1, 1, 1, 0, 0, 1, 1, 1, 1, 1})}});
  constexpr std::int64_t kSample = 5 * 6;
  double most = 0;
  for (std::int64_t i = 0; i < shorter.numel(); ++i) {
    EXPECT_NEAR(masked.at(i), shorter.at(i), 1e-12);
    most = std::max(most, std::abs(masked.at(kSample + i) - shorter.at(i)));
  }
  EXPECT_GT(most, 0.01) << "the second sample sees all five";
}

TEST(T5Encoder, TakesTheTableOfTokensByEitherName) {
  const ParamSource tied{.dtype = [](std::string_view) { return DType::kBF16; },
                         .has = [](std::string_view name) { return name != "shared.weight"; }};
  const Graph graph = encode(small_t5(), {{"input_ids", {1, 2}}}, tied);
  const ValueId table = graph.find(ValueKind::kParam, "encoder.embed_tokens.weight");
  ASSERT_NE(table, kNoValue);
  EXPECT_EQ(graph.find(ValueKind::kParam, "shared.weight"), kNoValue);
  EXPECT_EQ(graph.nodes().front().op, Op::kGather)
      << "rows of the table as it is stored, which no cast has made larger";
  EXPECT_EQ(graph.nodes().front().inputs[0], table);
}

TEST(T5Encoder, RefusesShapesThatDoNotFit) {
  EXPECT_THAT(error_of([] { (void)encode(small_t5(), {{"input_ids", {5}}}); }), HasSubstr("[batch, tokens]"));
  EXPECT_THAT(error_of([] {
                (void)encode(small_t5(), {{"input_ids", {2, 5}}, {"attention_mask", {2, 4}}});
              }),
              HasSubstr("'attention_mask' is [2, 4], expected [2, 5]"));
}

}  // namespace
}  // namespace headroom
