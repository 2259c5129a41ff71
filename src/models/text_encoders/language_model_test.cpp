#include "models/text_encoders/language_model.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "base/test_util.hpp"
#include "ir/interpreter.hpp"
#include "ir/verify.hpp"
#include "models/test_util.hpp"

namespace headroom {
namespace {

using testing::HasSubstr;

nlohmann::json small_qwen(const nlohmann::json& changes = nlohmann::json::object()) {
  nlohmann::json config = {{"architectures", {kQwen25Vl}}, {"vocab_size", 13},       {"hidden_size", 8},
                           {"intermediate_size", 10},      {"num_hidden_layers", 2}, {"num_attention_heads", 4},
                           {"num_key_value_heads", 2},     {"hidden_act", "silu"}};
  config.update(changes);
  return config;
}

std::string error_of_qwen(const nlohmann::json& changes) {
  return error_of([&] { static_cast<void>(parse_language_model_config(small_qwen(changes))); });
}

Graph language_graph(const nlohmann::json& config, std::string_view pass, const PassSize& size,
                     const ParamSource& params = f32_params()) {
  const ComponentPass& found = pass_named(class_of(config), pass);
  Graph graph = found.build(config, found.shapes(config, size), params);
  verify(graph);
  return graph;
}

/// The last hidden state of ids[1, n], with weights that all differ.
HostTensor states_of(const std::vector<int>& ids) {
  const Graph graph = language_graph(small_qwen(), "encode", {.batch = 1, .text_tokens = std::ssize(ids)});
  NamedTensors params, inputs;
  for (const ValueId param : graph.values_of(ValueKind::kParam)) {
    HostTensor tensor(DType::kF32, graph.type(param).shape);
    for (std::int64_t i = 0; i < tensor.numel(); ++i)
      tensor.set(i, std::sin(static_cast<double>(i * i) + static_cast<double>(graph.value(param).name.size())));
    params.emplace(graph.value(param).name, tensor);
  }
  HostTensor tokens(DType::kI32, {1, std::ssize(ids)});
  for (std::size_t i = 0; i < ids.size(); ++i) tokens.set(static_cast<std::int64_t>(i), ids[i]);
  inputs.emplace("input_ids", tokens);
  return interpret(graph, inputs, params).outputs.at("last_hidden_state");
}

TEST(LanguageModelConfig, ReadsWhatEitherVersionOfTransformersWrites) {
  const LanguageModelConfig flat = parse_language_model_config(qwen25_vl_config());
  EXPECT_EQ(flat.head_dim, 128);
  EXPECT_EQ(flat.rms_norm_eps, 1e-6);
  EXPECT_TRUE(flat.has_qkv_bias);
  EXPECT_FALSE(flat.has_output_bias || flat.has_qk_norm);
  const LanguageModelConfig nested = parse_language_model_config(
      {{"architectures", {kQwen25Vl}},
       {"hidden_size", 1},  // transformers writes the same there and in text_config; the latter is the model's
       {"text_config",
        {{"hidden_size", 60},
         {"num_attention_heads", 6},
         {"num_key_value_heads", 3},
         {"rope_parameters", {{"rope_type", "default"}, {"type", "mrope"}, {"rope_theta", 5e4}}}}}});
  EXPECT_EQ(nested.head_dim, 10);
  EXPECT_EQ(nested.rope_theta, 5e4);
  EXPECT_EQ(nested.num_hidden_layers, 80);
  const LanguageModelConfig qwen3 = parse_language_model_config({{"architectures", {kQwen3}}, {"hidden_size", 2560}});
  EXPECT_EQ(qwen3.head_dim, 128) << "and not the width divided by the heads";
  EXPECT_TRUE(qwen3.has_qk_norm);
  EXPECT_FALSE(qwen3.has_qkv_bias);
}

TEST(LanguageModelConfig, NamesWhatIsNotSupported) {
  EXPECT_THAT(error_of_qwen({{"architectures", {"LlamaForCausalLM"}}}), HasSubstr("LlamaForCausalLM"));
  EXPECT_THAT(error_of_qwen({{"hidden_act", "gelu"}}), HasSubstr("hidden_act is \"gelu\", expected \"silu\""));
  EXPECT_THAT(error_of_qwen({{"use_sliding_window", true}}), HasSubstr("use_sliding_window is true"));
  EXPECT_THAT(error_of_qwen({{"rope_scaling", {{"type", "yarn"}}}}), HasSubstr("type of rope_scaling is \"yarn\""));
  EXPECT_THAT(error_of_qwen({{"rope_scaling", 7}}), HasSubstr("rope_scaling is 7, expected an object"));
  EXPECT_THAT(error_of_qwen({{"rope_theta", 0}}), HasSubstr("rope_theta is 0"));
  EXPECT_THAT(error_of_qwen({{"num_key_value_heads", 3}}), HasSubstr("a multiple of num_key_value_heads, which is 3"));
  EXPECT_THAT(error_of_qwen({{"hidden_size", 12}}), HasSubstr("heads of 3 are not even"));
  EXPECT_THAT(error_of_qwen({{"num_hidden_layers", 0}}), HasSubstr("num_hidden_layers is 0"));
}

TEST(LanguageModel, HasTheParametersOfQwen25Vl) {
  const Graph graph = language_graph(qwen25_vl_config(), "encode", {.batch = 1, .text_tokens = 2});
  EXPECT_EQ(count_params(graph), 7'070'619'136);
  EXPECT_NE(graph.find(ValueKind::kParam, "model.layers.27.self_attn.k_proj.bias"), kNoValue);
  EXPECT_EQ(graph.find(ValueKind::kParam, "model.layers.0.self_attn.o_proj.bias"), kNoValue);
  EXPECT_EQ(graph.blocks().size(), 28U);
}

TEST(LanguageModel, TakesTheNamesOfTheModelInMemory) {
  ParamSource nested = f32_params();
  nested.has = [](std::string_view name) { return name.starts_with("model.language_model."); };
  const Graph graph = language_graph(small_qwen(), "encode", {.batch = 1, .text_tokens = 3}, nested);
  for (const ValueId param : graph.values_of(ValueKind::kParam))
    EXPECT_TRUE(graph.value(param).name.starts_with("model.language_model.")) << graph.value(param).name;
}

TEST(LanguageModel, StatesDoNotDependOnIdsAfterThem) {
  const HostTensor three = states_of({3, 1, 12}), filled = states_of({3, 1, 12, 0, 0, 7});
  const HostTensor other = states_of({3, 2, 12});
  bool differs = false;
  for (std::int64_t i = 0; i < three.numel(); ++i) {
    EXPECT_EQ(three.at(i), filled.at(i)) << i;
    differs = differs || std::abs(three.at(i) - other.at(i)) > 1e-3;
  }
  EXPECT_TRUE(differs);
}

}  // namespace
}  // namespace headroom
