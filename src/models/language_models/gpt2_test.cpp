#include "models/language_models/gpt2.hpp"

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

using testing::HasSubstr;

constexpr std::int64_t kGptVocabulary = 9;

nlohmann::json small_gpt(const nlohmann::json& changes = nlohmann::json::object()) {
  nlohmann::json config = {{"architectures", {"GPT2LMHeadModel"}},
                           {"vocab_size", kGptVocabulary},
                           {"n_positions", 6},
                           {"n_embd", 6},
                           {"n_layer", 2},
                           {"n_head", 2}};
  config.update(changes);
  return config;
}

const ParamSource kGptInF32{.dtype = [](std::string_view) { return DType::kF32; }};

Graph build_gpt(const nlohmann::json& config, Shape ids, const ParamSource& params = kGptInF32) {
  Graph graph = pass_named(class_of(config), "forward").build(config, {{"input_ids", ids}}, params);
  verify(graph);
  return graph;
}

HostTensor logits_of(const std::vector<int>& text) {
  const Shape shape{1, static_cast<std::int64_t>(text.size())};
  const Graph graph = build_gpt(small_gpt(), shape);
  NamedTensors params;
  for (const ValueId param : graph.values_of(ValueKind::kParam)) {
    HostTensor tensor(DType::kF32, graph.type(param).shape);
    for (std::int64_t i = 0; i < tensor.numel(); ++i)
      tensor.set(i, std::sin(static_cast<double>(i * i) + static_cast<double>(graph.value(param).name.size())));
    params.emplace(graph.value(param).name, tensor);
  }
  HostTensor ids(DType::kI32, shape);
  for (std::size_t i = 0; i < text.size(); ++i) ids.set(static_cast<std::int64_t>(i), text[i]);
  return interpret(graph, {{"input_ids", ids}}, params).outputs.at("logits");
}

std::string error_of_gpt(const nlohmann::json& changes) {
  return error_of([&] { static_cast<void>(parse_gpt2_config(small_gpt(changes))); });
}

TEST(Gpt2Config, ReadsDefaultsAndNames) {
  const Gpt2Config small = parse_gpt2_config({{"architectures", {"GPT2LMHeadModel"}}, {"n_inner", nullptr}});
  EXPECT_EQ(small.n_inner, 3072);
  EXPECT_EQ(small.vocab_size, 50257);
  EXPECT_EQ(small.activation, Op::kGeluTanh);
  EXPECT_TRUE(small.tie_word_embeddings);
  EXPECT_EQ(parse_gpt2_config(gpt_6_7b_config()).n_head, 32);
  EXPECT_EQ(parse_gpt2_config(small_gpt({{"n_inner", 10}})).n_inner, 10);
}

TEST(Gpt2Config, NamesWhatIsNotSupported) {
  EXPECT_THAT(error_of_gpt({{"architectures", {"GPT2Model"}}}), HasSubstr("expected \"GPT2LMHeadModel\""));
  EXPECT_THAT(error_of_gpt({{"n_head", 4}}), HasSubstr("n_embd is 6, expected a multiple of n_head, which is 4"));
  EXPECT_THAT(error_of_gpt({{"activation_function", "mish"}}), HasSubstr("activation_function is \"mish\""));
  EXPECT_THAT(error_of_gpt({{"add_cross_attention", true}}), HasSubstr("add_cross_attention is true, expected false"));
  EXPECT_THAT(error_of_gpt({{"scale_attn_by_inverse_layer_idx", true}}), HasSubstr("expected false"));
}

TEST(Gpt2, HasTheParametersOfItsNames) {
  for (const auto& [config, expected] : {std::pair{gpt_125m_config(), std::int64_t{124'475'904}},
                                         std::pair{gpt_350m_config(), std::int64_t{354'871'296}}}) {
    const Graph graph = build_gpt(config, {1, 2});
    std::int64_t count = 0;
    for (const ValueId param : graph.values_of(ValueKind::kParam)) count += graph.type(param).shape.numel();
    EXPECT_EQ(count, expected);
    EXPECT_EQ(graph.blocks().size(), config.at("n_layer").get<std::size_t>());
  }
  EXPECT_THAT(error_of([] { (void)build_gpt(small_gpt(), {1, 7}); }), HasSubstr("at most 6 tokens"));
}

TEST(Gpt2, TakesNamesWithAndWithoutTransformer) {
  const ParamSource bare{.dtype = kGptInF32.dtype,
                         .has = [](std::string_view name) { return !name.starts_with("transformer."); }};
  const Graph published = build_gpt(small_gpt(), {1, 3}, bare);
  EXPECT_NE(published.find(ValueKind::kParam, "h.1.mlp.c_fc.weight"), kNoValue);
  EXPECT_EQ(published.find(ValueKind::kParam, "lm_head.weight"), kNoValue);
  const Graph saved = build_gpt(small_gpt({{"tie_word_embeddings", false}}), {1, 3});
  EXPECT_NE(saved.find(ValueKind::kParam, "transformer.h.1.mlp.c_fc.weight"), kNoValue);
  EXPECT_NE(saved.find(ValueKind::kParam, "lm_head.weight"), kNoValue);
}

TEST(Gpt2, SeesNoTokenThatComesLater) {
  const HostTensor one = logits_of({8, 3, 4, 1, 1}), other = logits_of({8, 3, 7, 1, 1});
  for (std::int64_t i = 0; i < one.numel(); ++i)
    EXPECT_EQ(one.at(i) == other.at(i), i < 2 * kGptVocabulary) << "element " << i;
}

}  // namespace
}  // namespace headroom
