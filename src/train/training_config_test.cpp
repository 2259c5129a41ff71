#include "train/training_config.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/test_util.hpp"
#include "train/initial_weights.hpp"

namespace headroom {
namespace {

using nlohmann::json;
using testing::EndsWith, testing::HasSubstr;

json least_config() {
  return {{"model", "gpt-125m"}, {"data", "data.bin"}, {"tokens", 64}, {"batch", 4}, {"steps", 100}};
}

std::string error_with(const json& changes) {
  json config = least_config();
  config.merge_patch(changes);
  return error_of([&] { static_cast<void>(parse_training_config(config, "run.json")); });
}

TEST(TrainingConfig, HasDefaults) {
  const TrainingConfig config = parse_training_config(least_config(), "run.json");
  EXPECT_EQ(config.model.at("n_layer"), 12);
  EXPECT_EQ(config.size.samples(), 4);
  EXPECT_EQ(config.size.tokens, 64);
  EXPECT_EQ(config.optimizer.schedule.updates, 100);
  EXPECT_EQ(config.optimizer.schedule.kind, RateSchedule::Kind::kCosine);
  EXPECT_EQ(config.optimizer.clip, 1);
  EXPECT_EQ(config.checkpoint_every, 0);
  EXPECT_EQ(config.data.tokens, "data.bin");
  EXPECT_TRUE(config.validation_data.tokens.empty());
  EXPECT_EQ(config.precision, Precision::kF32);
  EXPECT_FALSE(config.loss_scaling.has_value());
  EXPECT_EQ(config.optimizer.average, 0);
}

TEST(TrainingConfig, SaysWhatIsWrong) {
  EXPECT_THAT(error_with({{"setps", 5}}), HasSubstr("run.json: there is no key 'setps'"));
  EXPECT_THAT(error_with({{"setps", 5}}), HasSubstr("did you mean 'steps'"));
  EXPECT_THAT(error_with({{"steps", nullptr}}), HasSubstr("steps"));
  EXPECT_THAT(error_with({{"batch", 0}}), HasSubstr("run.json: batch is 0, expected 1 to"));
  EXPECT_THAT(error_with({{"model", "gpt-1"}}),
              EndsWith("model is \"gpt-1\", expected a configuration, the folder of a model, or one of gpt-125m, "
                       "gpt-350m, gpt-1.3b, gpt-6.7b"))
      << "without text encoders, which cannot be trained";
  EXPECT_THAT(error_with({{"objective", "masked"}}),
              HasSubstr("objective: kind is \"masked\", expected one of causal-lm, flow-matching"));
  EXPECT_THAT(error_with({{"optimizer", {{"beta1", 1}}}}), HasSubstr("run.json: optimizer: beta1 is 1, expected 0 to"));
  EXPECT_THAT(error_with({{"optimizer", {{"no_weight_decay", "("}}}}),
              HasSubstr("optimizer: no_weight_decay: '(' is not a regular expression"));
  EXPECT_THAT(error_with({{"optimizer", 3}}), HasSubstr("run.json: optimizer is 3, but an object was expected"));
  EXPECT_THAT(error_with({{"schedule", {{"kind", "step"}}}}), HasSubstr("kind is \"step\", expected one of constant"));
  EXPECT_THAT(error_with({{"schedule", {{"warmup", 101}}}}), HasSubstr("warmup is 101, expected 0 to 100"));
  EXPECT_THAT(error_with({{"validation", {{"every", 5}}}}), HasSubstr("data"));
  EXPECT_THAT(error_with({{"initialization", json::array({{{"names", "x"}}})}}), HasSubstr("expected either normal"));
  EXPECT_THAT(error_with({{"precision", "fp8"}}), HasSubstr("precision is \"fp8\", expected one of f32, bf16, f16"));
  EXPECT_THAT(error_with({{"frozen", "bias"}}), HasSubstr("frozen needs trained weights: give the folder of a model"));
  EXPECT_THAT(error_with({{"averages", {{"decay", 1}}}}), HasSubstr("averages: decay is 1, expected"));
  EXPECT_THAT(error_with({{"loss_scaling", {{"initial", 0.5}}}}),
              HasSubstr("loss_scaling: initial is 0.5, expected 1"));
  EXPECT_THAT(error_with({{"objective", {{"kind", "causal-lm"}, {"patch", 2}}}}),
              HasSubstr("causal-lm has no options"));
  EXPECT_THAT(error_with({{"objective", "classification"}}), HasSubstr("data is \"data.bin\", but an object was"));
}

TEST(TrainingConfig, ReadsThatOfImages) {
  const json file = {{"model", {{"_class_name", "FluxTransformer2DModel"}}},
                     {"objective", {{"kind", "flow-matching"}, {"text_tokens", 4}, {"no_prompt", 0.5}}},
                     {"data", {{"images", "a.gz"}, {"labels", "b.gz"}, {"pad", 2}}},
                     {"batch", 4},
                     {"steps", 100},
                     {"precision", "f16"},
                     {"loss_scaling", {{"interval", 7}}},
                     {"averages", {{"decay", 0.9}}},
                     {"validation", {{"data", {{"images", "c.gz"}, {"labels", "d.gz"}}}}}};
  const TrainingConfig config = parse_training_config(file, "run.json");
  EXPECT_EQ(config.objective, ObjectiveKind::kFlowMatching);
  EXPECT_EQ(config.flow, (FlowOptions{.text_tokens = 4, .no_prompt = 0.5}));
  EXPECT_EQ(config.data.images.images, "a.gz");
  EXPECT_EQ(config.data.pad, 2);
  EXPECT_EQ(config.validation_data.images.labels, "d.gz");
  EXPECT_EQ(config.precision, Precision::kF16);
  EXPECT_EQ(config.loss_scaling.value(), (LossScaling{.interval = 7}));
  EXPECT_EQ(config.optimizer.average, 0.9);
  json with_tokens = file;
  with_tokens["tokens"] = 5;
  EXPECT_THAT(error_of([&] { static_cast<void>(parse_training_config(with_tokens, "run.json")); }),
              HasSubstr("tokens is of the objective causal-lm alone"));
}

TEST(TrainingConfig, IsChangedByKey) {
  json config = {{"steps", 5}, {"optimizer", {{"clip", 1}}}};
  set_config_value(config, "steps=7");
  set_config_value(config, "optimizer.clip=0.5");
  set_config_value(config, "schedule.kind=linear");
  set_config_value(config, "data=a=b.bin");
  set_config_value(config, "model={\"n_layer\": 2}");
  EXPECT_EQ(config, (json{{"steps", 7},
                          {"optimizer", {{"clip", 0.5}}},
                          {"schedule", {{"kind", "linear"}}},
                          {"data", "a=b.bin"},
                          {"model", {{"n_layer", 2}}}}));
  EXPECT_THAT(error_of([&] { set_config_value(config, "steps"); }), HasSubstr("--set steps: expected KEY=VALUE"));
  EXPECT_THAT(error_of([&] { set_config_value(config, "=3"); }), HasSubstr("expected KEY=VALUE"));
  EXPECT_THAT(error_of([&] { set_config_value(config, "steps.x=3"); }), HasSubstr("is no object"));
}

TEST(InitialWeights, FollowTheFirstRuleThatMatches) {
  const TrainingConfig config = parse_training_config(least_config(), "run.json");
  const auto deviation = [&](const std::string& name, double mean) {
    const HostTensor weight = initial_weight(name, {64, 64}, config.initialization, 8, 1);
    double squares = 0;
    for (std::int64_t i = 0; i < weight.numel(); ++i) squares += std::pow(weight.at(i) - mean, 2);
    return std::sqrt(squares / static_cast<double>(weight.numel()));
  };
  EXPECT_NEAR(deviation("transformer.wte.weight", 0), 0.02, 1e-3);
  EXPECT_NEAR(deviation("transformer.h.0.attn.c_proj.weight", 0), 0.02 / 4, 3e-4);
  EXPECT_EQ(deviation("transformer.h.0.attn.c_proj.bias", 0), 0);
  EXPECT_EQ(deviation("transformer.h.0.ln_1.weight", 1), 0);
  EXPECT_EQ(deviation("transformer.h.0.ln_1.bias", 0), 0);
  const HostTensor one = initial_weight("a.weight", {4}, config.initialization, 8, 1);
  EXPECT_NE(one.at(0), initial_weight("b.weight", {4}, config.initialization, 8, 1).at(0));
  EXPECT_NE(one.at(0), initial_weight("a.weight", {4}, config.initialization, 8, 2).at(0));
  EXPECT_EQ(one.at(0), initial_weight("a.weight", {4}, config.initialization, 8, 1).at(0));
  const std::vector<InitialValues> xavier = {{.names = "", .xavier = true}};
  const HostTensor convolution = initial_weight("a", {8, 4, 3, 3}, xavier, 8, 1);
  double largest = 0, sum = 0;
  for (std::int64_t i = 0; i < convolution.numel(); ++i) {
    largest = std::max(largest, std::abs(convolution.at(i)));
    sum += convolution.at(i);
  }
  EXPECT_NEAR(largest, std::sqrt(6.0 / (12 * 9)), 0.01);
  EXPECT_NEAR(sum / static_cast<double>(convolution.numel()), 0, 0.02);
  EXPECT_THAT(error_of([&] { static_cast<void>(initial_weight("a", {8}, xavier, 8, 1)); }),
              HasSubstr("xavier is for matrices, and a is [8]"));
  const std::vector<InitialValues> few = {{.names = "^b"}};
  EXPECT_THAT(error_of([&] { static_cast<void>(initial_weight("a", {4}, few, 8, 1)); }),
              HasSubstr("no rule of `initialization` matches the weight a"));
}

/// A number depends on its place alone, however threads share the work.
TEST(InitialWeights, AreTheSameForAnyNumberOfThreads) {
  const std::vector<InitialValues> rules = {{.names = "", .deviation = 1}};
  const HostTensor many = initial_weight("a", {400000}, rules, 8, 1),
                   fewer = initial_weight("a", {333333}, rules, 8, 1),
                   serial = initial_weight("a", {60000}, rules, 8, 1);
  for (const HostTensor* part : {&fewer, &serial})
    EXPECT_TRUE(std::ranges::equal(part->bytes(), many.bytes().first(part->bytes().size())));
}

}  // namespace
}  // namespace headroom
