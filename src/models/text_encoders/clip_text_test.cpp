#include "models/text_encoders/clip_text.hpp"

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

constexpr std::int64_t kWidth = 6, kTokens = 5;

nlohmann::json small_config(const nlohmann::json& changes = nlohmann::json::object()) {
  nlohmann::json config = {{"architectures", {"CLIPTextModel"}},
                           {"vocab_size", 12},
                           {"hidden_size", kWidth},
                           {"intermediate_size", 10},
                           {"num_hidden_layers", 2},
                           {"num_attention_heads", 2},
                           {"max_position_embeddings", kTokens},
                           {"eos_token_id", 11}};
  config.update(changes);
  return config;
}

const nlohmann::json kProjected = {{"architectures", {"CLIPTextModelWithProjection"}}, {"projection_dim", 4}};

const ParamSource kClipInF32{.dtype = [](std::string_view) { return DType::kF32; }};

Graph build(std::string_view pass, const nlohmann::json& config, Shape ids, const ParamSource& params = kClipInF32) {
  Graph graph = pass_named(class_of(config), pass).build(config, {{"input_ids", ids}}, params);
  verify(graph);
  return graph;
}

/// Runs a pass on one text, with weights that all differ.
NamedTensors run(std::string_view pass, const nlohmann::json& config, const std::vector<int>& text) {
  const Shape shape{1, static_cast<std::int64_t>(text.size())};
  const Graph graph = build(pass, config, shape);
  NamedTensors params;
  for (const ValueId param : graph.values_of(ValueKind::kParam)) {
    HostTensor tensor(DType::kF32, graph.type(param).shape);
    for (std::int64_t i = 0; i < tensor.numel(); ++i)
      tensor.set(i, std::sin(static_cast<double>(i * i) + static_cast<double>(graph.value(param).name.size())));
    params.emplace(graph.value(param).name, tensor);
  }
  HostTensor ids(DType::kI32, shape);
  for (std::size_t i = 0; i < text.size(); ++i) ids.set(static_cast<std::int64_t>(i), text[i]);
  return interpret(graph, {{"input_ids", ids}}, params).outputs;
}

/// The token whose last hidden state was pooled.
std::int64_t pooled_token(const NamedTensors& outputs) {
  for (std::int64_t token = 0; token < kTokens; ++token) {
    bool agrees = true;
    for (std::int64_t i = 0; i < kWidth; ++i)
      agrees = agrees && outputs.at("pooler_output").at(i) == outputs.at("last_hidden_state").at(token * kWidth + i);
    if (agrees) return token;
  }
  return -1;
}

std::string error_of_clip(const nlohmann::json& changes) {
  return error_of([&] { static_cast<void>(parse_clip_text_config(small_config(changes))); });
}

TEST(ClipTextConfig, ReadsLAndDefaults) {
  const ClipTextConfig clip = parse_clip_text_config(clip_l_config());
  EXPECT_EQ(clip.hidden_size, 768);
  EXPECT_EQ(clip.eos_token_id, 2);
  EXPECT_FALSE(clip.has_projection);
  const ClipTextConfig plain = parse_clip_text_config({{"_class_name", "CLIPTextModelWithProjection"}});
  EXPECT_EQ(plain.num_attention_heads, 8);
  EXPECT_EQ(plain.eos_token_id, 49407);
  EXPECT_EQ(plain.activation, Op::kQuickGelu);
  EXPECT_TRUE(plain.has_projection);
  EXPECT_EQ(parse_clip_text_config(small_config({{"hidden_act", "gelu"}})).activation, Op::kGeluErf);
}

TEST(ClipTextConfig, NamesWhatIsNotSupported) {
  EXPECT_THAT(error_of_clip({{"architectures", {"CLIPModel"}}}),
              HasSubstr("architectures is [\"CLIPModel\"], expected \"CLIPTextModel\""));
  EXPECT_THAT(error_of_clip({{"architectures", nullptr}}), HasSubstr("architectures is null"));
  EXPECT_THAT(error_of_clip({{"hidden_act", "mish"}}), HasSubstr("hidden_act is \"mish\", expected one of relu"));
  EXPECT_THAT(error_of_clip({{"hidden_act", 1}}), HasSubstr("hidden_act is 1, expected a text"));
  EXPECT_THAT(error_of_clip({{"num_attention_heads", 4}}), HasSubstr("multiple of num_attention_heads, which is 4"));
}

TEST(ClipText, HasTheParametersOfL) {
  const Graph graph = build("encode", clip_l_config(), {1, 77});
  std::int64_t count = 0;
  for (const ValueId param : graph.values_of(ValueKind::kParam)) count += graph.type(param).shape.numel();
  EXPECT_EQ(count, 123'060'480);
  EXPECT_EQ(graph.blocks().size(), 12U);
  EXPECT_THAT(error_of([] { (void)build("encode", clip_l_config(), {1, 78}); }), HasSubstr("at most 77 tokens"));
}

TEST(ClipText, TakesNamesWithAndWithoutTextModel) {
  const ParamSource bare{.dtype = kClipInF32.dtype,
                         .has = [](std::string_view name) { return !name.starts_with("text_model."); }};
  const Graph graph = build("encode", small_config(kProjected), {1, 3}, bare);
  EXPECT_NE(graph.find(ValueKind::kParam, "encoder.layers.1.mlp.fc2.bias"), kNoValue);
  EXPECT_NE(graph.find(ValueKind::kParam, "text_projection.weight"), kNoValue);
  const Graph published = build("encode", small_config(kProjected), {1, 3});
  EXPECT_NE(published.find(ValueKind::kParam, "text_model.encoder.layers.1.mlp.fc2.bias"), kNoValue);
  EXPECT_NE(published.find(ValueKind::kParam, "text_projection.weight"), kNoValue);
}

TEST(ClipText, SeesNoTokenThatComesLater) {
  const HostTensor one = run("encode", small_config(), {10, 3, 4, 11, 11}).at("last_hidden_state");
  const HostTensor other = run("encode", small_config(), {10, 3, 7, 11, 11}).at("last_hidden_state");
  for (std::int64_t i = 0; i < kTokens * kWidth; ++i)
    EXPECT_EQ(one.at(i) == other.at(i), i < 2 * kWidth) << "element " << i;
}

TEST(ClipText, PoolsTheFirstTokenThatEndsTheText) {
  EXPECT_EQ(pooled_token(run("encode", small_config(), {10, 3, 11, 11, 11})), 2);
  EXPECT_EQ(pooled_token(run("encode", small_config({{"eos_token_id", 5}}), {10, 3, 11, 5, 5})), 3);
  // Old configurations have 2 for a vocabulary whose end token is its largest id.
  EXPECT_EQ(pooled_token(run("encode", small_config({{"eos_token_id", 2}}), {10, 2, 3, 11, 11})), 3);
}

TEST(ClipText, PutsOutWhatAPassIsFor) {
  const auto names = [](const NamedTensors& outputs) {
    std::vector<std::string> found;
    for (const auto& [name, tensor] : outputs) found.push_back(name);
    return found;
  };
  const std::vector<int> text = {10, 3, 4, 11};
  const NamedTensors plain = run("encode", small_config(), text);
  EXPECT_THAT(names(plain), ElementsAre("last_hidden_state", "pooler_output"));
  const NamedTensors projected = run("encode", small_config(kProjected), text);
  EXPECT_THAT(names(projected), ElementsAre("last_hidden_state", "text_embeds"));
  EXPECT_EQ(projected.at("text_embeds").shape(), (Shape{1, 4}));
  EXPECT_THAT(names(run("hidden-states", small_config(), text)),
              ElementsAre("hidden_states.0", "hidden_states.1", "hidden_states.2"));
}

}  // namespace
}  // namespace headroom
