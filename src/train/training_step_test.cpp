#include "train/training_step.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/test_paths.hpp"
#include "base/test_util.hpp"
#include "io/checkpoint.hpp"
#include "ir/verify.hpp"
#include "train/causal_lm.hpp"
#include "train/test_util.hpp"

namespace headroom {
namespace {

using namespace train_test;

constexpr StepSize kGoldenSize{.micro_batches = 2, .batch = 3, .tokens = 9};
const std::vector<double> kGoldenRates = {2e-3, 4e-3, 3e-3, 1e-3};

/// GPT-2 as PyTorch trains it in double precision (tests/goldens/make_training.py).
class Gpt2Training {
 public:
  [[nodiscard]] TrainingStep step(const StepSize& size) const {
    TrainingStep step = build_training_step(
        model_, size, {.betas = {0.9, 0.95}, .weight_decay = 0.1, .clip = 1, .schedule = {.updates = 4}},
        [](const std::string&, const Shape& shape) { return shape.rank() > 1; });
    verify(step.graph);
    return step;
  }
  [[nodiscard]] NamedTensors states(const Graph& graph, DType dtype) const {
    NamedTensors states;
    for (const ValueId state : graph.values_of(ValueKind::kState)) {
      const auto& [kind, name, type] = graph.value(state);
      states.emplace(name, weights_.has(name) ? convert(weights_.read(name), dtype)
                                              : HostTensor(type.dtype == DType::kI32 ? type.dtype : dtype, type.shape));
    }
    return states;
  }
  /// The step's tokens in the shape of `size`.
  [[nodiscard]] NamedTensors inputs(std::int64_t step, const StepSize& size) const {
    const HostTensor all = golden_.read("tokens");
    HostTensor tokens(DType::kI32, {size.micro_batches, size.batch, size.tokens + 1}), rates(DType::kF64, {4, 3});
    for (std::int64_t i = 0; i < tokens.numel(); ++i) tokens.set(i, all.at(step * tokens.numel() + i));
    for (int i = 0; i < 4; ++i) {
      rates.set(3 * i, kGoldenRates[static_cast<std::size_t>(i)]);
      rates.set(3 * i + 1, 1 / (1 - std::pow(0.9, i + 1)));
      rates.set(3 * i + 2, 1 / std::sqrt(1 - std::pow(0.95, i + 1)));
    }
    return {{std::string(kTokensInput), tokens}, {std::string(kRatesInput), rates}};
  }
  void expect(Stepper& stepper, const StepSize& size, double tolerance) const {
    const TrainingStep made = step(size);
    for (std::int64_t step = 0; step < 4; ++step) {
      const NamedTensors outputs = stepper.run(inputs(step, size));
      EXPECT_NEAR(outputs.at("loss").at(0), golden_.read("losses").at(step), 10 * tolerance) << step;
      EXPECT_NEAR(outputs.at("norm").at(0), golden_.read("norms").at(step), 10 * tolerance) << step;
    }
    for (const TrainedWeight& weight : made.weights)
      EXPECT_LT(relative_l2(determined(stepper.state(weight.name), weight.name),
                            determined(golden_.read(weight.name), weight.name)),
                tolerance)
          << weight.name;
    EXPECT_EQ(made.weights.size(), golden_.entries().size() - 3);
  }

 private:
  /// The gradient of the keys' biases is 0, as they change no softmax, and Adam makes steps of its rounding.
  static HostTensor determined(HostTensor weight, const std::string& name) {
    if (!name.ends_with(".c_attn.bias")) return weight;
    const std::int64_t width = weight.numel() / 3;
    for (std::int64_t i = width; i < 2 * width; ++i) weight.set(i, 0);
    return weight;
  }

  std::filesystem::path goldens_ = source_dir(kSourceDir) / "tests/goldens";
  SafetensorsFile golden_ = SafetensorsFile::open(goldens_ / "train/gpt2.safetensors");
  Checkpoint weights_ = Checkpoint::open(goldens_ / "text/gpt2");
  nlohmann::json config_ = weights_.config();
  LanguageModel model_{&class_of(config_), &config_};
};

// Adam's quotients of small moments magnify rounding: f32 in PyTorch itself is as far off.
constexpr double kDoubleError = 1e-8, kSingleError = 2e-5;

TEST(TrainingStep, TrainsAsPyTorchInDoublePrecision) {
  const Gpt2Training training;
  const Graph graph = training.step(kGoldenSize).graph;
  InterpretedSteps steps(graph, training.states(graph, DType::kF64));
  training.expect(steps, kGoldenSize, kDoubleError);
}

TEST(TrainingStep, TrainsAsPyTorchByKernels) {
  const Gpt2Training training;
  for (const char* switches : {"baseline", "lossless"}) {
    const Graph graph = training.step(kGoldenSize).graph;
    SessionSteps steps(graph, training.states(graph, DType::kF32), switches);
    training.expect(steps, kGoldenSize, kSingleError);
  }
}

/// Micro-batches are a matter of memory alone: the loss is divided by all tokens of the step.
TEST(TrainingStep, IsTheSameInOneBatch) {
  const Gpt2Training training;
  constexpr StepSize kOne{.micro_batches = 1, .batch = 6, .tokens = 9};
  const Graph graph = training.step(kOne).graph;
  SessionSteps steps(graph, training.states(graph, DType::kF32), "lossless");
  training.expect(steps, kOne, kSingleError);
}

TEST(CausalLm, IsTheCrossEntropyForLogitsOfAnySize) {
  Graph graph("loss");
  Builder b(graph);
  const ValueId logits = graph.add_input("logits", TensorType{.shape = {3, 4}});
  const ValueId targets = graph.add_input("targets", TensorType{.dtype = DType::kI32, .shape = {3, 1}});
  graph.add_output("loss", causal_lm_loss(b, logits, targets, 2));
  HostTensor x(DType::kF32, {3, 4}), t(DType::kI32, {3, 1});
  const double values[] = {0, 0, 0, 0, 500, 503, -500, 500, -900.5, -900.5, -2000, -2000};
  for (int i = 0; i < 12; ++i) x.set(i, values[i]);
  for (int i = 0; i < 3; ++i) t.set(i, i + 1);
  // ln 4; 503 + ln(1 + 2 e^-3) + 500; 1099.5 + ln 2; divided by 2 tokens
  const double expected = (std::log(4) + 1003 + std::log(1 + 2 * std::exp(-3)) + 1099.5 + std::log(2)) / 2;
  EXPECT_NEAR(interpret(graph, {{"logits", x}, {"targets", t}}, {}).outputs.at("loss").at(0), expected, 1e-9);
  SessionSteps session(graph, {}, "lossless");
  EXPECT_NEAR(session.run({{"logits", x}, {"targets", t}}).at("loss").at(0), expected, 1e-3);
}

TEST(TrainingStep, RefusesWhatIsNoLanguageModel) {
  const nlohmann::json clip = {{"architectures", {"CLIPTextModel"}}};
  const LanguageModel model{&class_of(clip), &clip};
  EXPECT_EQ(error_of([&] { static_cast<void>(model.forward(1, 4)); }), "CLIPTextModel is no language model");
}

}  // namespace
}  // namespace headroom
