#include "train/training_step.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <tuple>

#include "backends/cuda/gpu_test.hpp"
#include "base/test_paths.hpp"
#include "base/test_util.hpp"
#include "io/checkpoint.hpp"
#include "ir/op_definition.hpp"
#include "ir/verify.hpp"
#include "train/causal_lm.hpp"
#include "train/cross_entropy.hpp"
#include "train/test_util.hpp"

namespace headroom {
namespace {

using namespace train_test;

constexpr StepSize kGoldenSize{.micro_batches = 2, .batch = 3, .tokens = 9};
/// GPT-2 as PyTorch trains it in double precision (tests/goldens/make_training.py).
class Gpt2Training {
 public:
  [[nodiscard]] TrainingStep step(const StepSize& size) const {
    TrainingStep step = build_training_step(causal_lm_loss(config_, size, kInF32), golden_recipe(size.micro_batches));
    verify(step.graph);
    return step;
  }
  [[nodiscard]] NamedTensors states(const Graph& graph, DType dtype) const {
    NamedTensors states;
    for (const ValueId state : graph.values_of(ValueKind::kState)) {
      const auto& [kind, name, type] = graph.value(state);
      if (const std::string weight = name.substr(0, name.rfind('.')); name == copy_name(weight)) {
        const HostTensor copy = convert(weights_.read(weight), type.dtype);
        states.emplace(name, dtype == DType::kF64 ? convert(copy, dtype) : copy);
        continue;
      }
      states.emplace(name, weights_.has(name) ? convert(weights_.read(name), dtype)
                                              : HostTensor(type.dtype == DType::kI32 ? type.dtype : dtype, type.shape));
    }
    return states;
  }
  [[nodiscard]] Graph loss(const StepSize& size, Precision precision, const Target& target) const {
    Graph loss = causal_lm_loss(config_, size, kInF32);
    prepare_loss(loss, precision, target);
    return loss;
  }
  void expect_losses(Stepper& stepper, const StepSize& size, double tolerance) const {
    for (std::int64_t step = 0; step < 4; ++step) {
      const NamedTensors outputs = stepper.run(inputs(step, size));
      EXPECT_NEAR(outputs.at("loss").at(0) / golden_.read("losses").at(step), 1, tolerance) << step;
      EXPECT_NEAR(outputs.at("norm").at(0) / golden_.read("norms").at(step), 1, 3 * tolerance) << step;
    }
  }
  /// The step's tokens in the shape of `size`.
  [[nodiscard]] NamedTensors inputs(std::int64_t step, const StepSize& size) const {
    const HostTensor all = golden_.read("tokens");
    HostTensor tokens(DType::kI32, {size.micro_batches, size.batch, size.tokens + 1});
    for (std::int64_t i = 0; i < tokens.numel(); ++i) tokens.set(i, all.at(step * tokens.numel() + i));
    return {{"tokens", tokens}, {std::string(kRatesInput), golden_rates()}};
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

Target with_bf16() { return {.device = DeviceKind::kCpu, .cpu_isa = CpuIsa::kAvx512Bf16}; }
Target with_f16() { return {.device = DeviceKind::kCuda, .compute_capability = 90}; }

/// Products, and what lies between two of them, are bf16; weights, logits and the loss are f32.
TEST(Precision, ConvertsProductsAndNotTheLoss) {
  const Gpt2Training training;
  const Graph loss = training.loss(kGoldenSize, Precision::kBF16, with_bf16());
  int products = 0;
  for (const Node& node : loss.nodes()) {
    const DType dtype = loss.type(node.results[0]).dtype;
    if (is_contraction(node.op)) {
      EXPECT_EQ(dtype, DType::kBF16) << node.path;
      ++products;
    }
    if (node.path.starts_with("loss") && is_float(dtype)) {
      EXPECT_EQ(dtype, DType::kF32) << name_of(node.op);
    }
  }
  EXPECT_GE(products, 5);
  for (const ValueId param : loss.values_of(ValueKind::kParam)) EXPECT_EQ(loss.type(param).dtype, DType::kF32);
  const TrainingStep step = build_training_step(loss, golden_recipe(kGoldenSize.micro_batches));
  verify(step.graph);
  // Products read copies of weights, which are all that is kept in 16 bits.
  std::set<ValueId> copies;
  for (const TrainedWeight& weight : step.weights)
    if (weight.copy != kNoValue) copies.insert(weight.copy);
  for (const TrainedWeight& weight : step.weights) {
    if (weight.name.ends_with("wpe.weight") || step.graph.type(weight.value).shape.rank() != 2) continue;
    EXPECT_NE(weight.copy, kNoValue) << weight.name;
  }
  for (const ValueId state : step.graph.values_of(ValueKind::kState))
    EXPECT_EQ(step.graph.type(state).dtype == DType::kBF16, copies.contains(state)) << step.graph.value(state).name;
  for (const Node& node : step.graph.nodes()) {
    EXPECT_FALSE(node.op == Op::kTranspose && step.graph.type(node.results[0]).shape.rank() == 2 &&
                 node.path.starts_with("backward"))
        << "a gradient is made as its weight lies: " << node.path;
    if (node.op == Op::kCast && step.graph.value(node.inputs[0]).kind == ValueKind::kState) {
      EXPECT_NE(step.graph.type(node.results[0]).dtype, DType::kBF16) << node.path;
    }
  }
}

TEST(Precision, TrainsNearlyAsDoublePrecision) {
  const Gpt2Training training;
  for (const auto& [precision, target, tolerance] :
       {std::tuple{Precision::kBF16, with_bf16(), 2e-2}, std::tuple{Precision::kF16, with_f16(), 3e-3}}) {
    StepRecipe recipe = golden_recipe(kGoldenSize.micro_batches);
    if (precision == Precision::kF16) recipe.loss_scaling = LossScaling();
    const Graph graph = build_training_step(training.loss(kGoldenSize, precision, target), recipe).graph;
    NamedTensors states = training.states(graph, DType::kF64);
    if (recipe.loss_scaling) states.find(kLossScaleState)->second.set(0, recipe.loss_scaling->initial);
    InterpretedSteps steps(graph, states);
    training.expect_losses(steps, kGoldenSize, tolerance);
  }
}

/// Each copy is its weight, rounded.
void expect_copies(const Graph& graph, const Stepper& stepper) {
  for (const ValueId state : graph.values_of(ValueKind::kState)) {
    const auto& [kind, name, type] = graph.value(state);
    const std::string weight = name.substr(0, name.rfind('.'));
    if (name != copy_name(weight)) continue;
    EXPECT_TRUE(std::ranges::equal(stepper.state(name).bytes(), convert(stepper.state(weight), type.dtype).bytes()))
        << name;
  }
}

TEST(Precision, TrainsInBf16ByKernels) {
  const std::unique_ptr<Backend> cpu = make_backend(DeviceKind::kCpu);
  const Target target = cpu->properties().target;
  if (const std::string obstacle = obstacle_to(Capability::kBf16, target); !obstacle.empty()) GTEST_SKIP() << obstacle;
  const Gpt2Training training;
  const Graph graph = build_training_step(training.loss(kGoldenSize, Precision::kBF16, target),
                                          golden_recipe(kGoldenSize.micro_batches))
                          .graph;
  for (const char* switches : {"baseline", "lossless"}) {
    SessionSteps steps(graph, training.states(graph, DType::kF32), switches);
    training.expect_losses(steps, kGoldenSize, 2e-2);
    expect_copies(graph, steps);
  }
}

class GpuTraining : public GpuTest {};

TEST_F(GpuTraining, TrainsAsPyTorch) {
  const Gpt2Training training;
  for (const char* switches : {"baseline", "lossless"}) {
    const Graph graph = training.step(kGoldenSize).graph;
    SessionSteps steps(graph, training.states(graph, DType::kF32), switches, DeviceKind::kCuda);
    training.expect(steps, kGoldenSize, 2 * kSingleError);
  }
}

/// Attention and its gradient by the kernels of 16 bits, and all else.
TEST_F(GpuTraining, TrainsIn16Bits) {
  const Gpt2Training training;
  const Target target = backend().properties().target;
  for (const auto& [precision, tolerance] : {std::tuple{Precision::kBF16, 2e-2}, std::tuple{Precision::kF16, 3e-3}})
    for (const std::int64_t micro_batches : {1, 2}) {
      const StepSize size{.micro_batches = micro_batches, .batch = 6 / micro_batches, .tokens = 9};
      StepRecipe recipe = golden_recipe(size.micro_batches);
      if (precision == Precision::kF16) recipe.loss_scaling = LossScaling();
      const Graph graph = build_training_step(training.loss(size, precision, target), recipe).graph;
      NamedTensors states = training.states(graph, DType::kF32);
      if (recipe.loss_scaling) states.find(kLossScaleState)->second.set(0, recipe.loss_scaling->initial);
      EXPECT_EQ(std::ranges::count(graph.nodes(), Op::kAttentionBackward, &Node::op) > 0,
                target.compute_capability == 90);
      std::vector<NamedTensors> made;
      for (int run = 0; run < 2; ++run) {
        SessionSteps steps(graph, states, "lossless", DeviceKind::kCuda);
        training.expect_losses(steps, size, tolerance);
        expect_copies(graph, steps);
        NamedTensors& left = made.emplace_back();
        for (const auto& [name, tensor] : states) left.emplace(name, steps.state(name));
      }
      for (const auto& [name, tensor] : made[0])
        EXPECT_TRUE(std::ranges::equal(tensor.bytes(), made[1].at(name).bytes())) << name << " differs between runs";
    }
}

/// The loss of 4,096 rows of which each adds `share` to the gradient of each bias, in 16 bits.
Graph loss_of_rows(double share, Precision precision, const Target& target) {
  constexpr std::int64_t kRows = 4096;
  Graph loss("loss");
  Builder b(loss);
  const ValueId x = loss.add_input("x", TensorType{.shape = {kRows, 8}});
  const ValueId weight = loss.add_param("weight", TensorType{.shape = {8, 8}});
  const ValueId bias = loss.add_param("bias", TensorType{.shape = {8}});
  const ValueId hidden = b.linear(x, weight, {.bias = bias});      // [rows, 8]
  const ValueId sums = b.linear(hidden, b.constant({1}, {1, 8}));  // [rows, 1]
  loss.add_output("loss", b.mul_scalar(b.sum(b.cast(sums, DType::kF32), {0, 1}), share));
  prepare_loss(loss, precision, target);
  return loss;
}

/// The gradient of the first bias, from the moment after one step without clipping.
double bias_gradient(const Graph& loss, std::optional<LossScaling> scaling, bool by_kernels) {
  const Graph graph = build_training_step(loss, {.adamw = {.schedule = {.updates = 1}}, .loss_scaling = scaling}).graph;
  NamedTensors states;
  for (const ValueId state : graph.values_of(ValueKind::kState)) {
    const auto& [kind, name, type] = graph.value(state);
    states.emplace(name, HostTensor(type.dtype, type.shape));
  }
  if (scaling) states.find(kLossScaleState)->second.set(0, scaling->initial);
  const NamedTensors inputs = {{"x", HostTensor(DType::kF32, {1, 4096, 8})},
                               {std::string(kRatesInput), rate_table({.schedule = {.updates = 1}})}};
  std::unique_ptr<Stepper> stepper = std::make_unique<InterpretedSteps>(graph, states);
  if (by_kernels) stepper = std::make_unique<SessionSteps>(graph, states, "lossless");
  static_cast<void>(stepper->run(inputs));
  return stepper->state(first_moment_name("bias")).at(0) / 0.1;
}

TEST(Precision, GradientsThatAreSumsAreSummedInF32) {
  EXPECT_NEAR(bias_gradient(loss_of_rows(1, Precision::kBF16, with_bf16()), std::nullopt, false), 4096, 1e-2);
  const std::unique_ptr<Backend> cpu = make_backend(DeviceKind::kCpu);
  const Target target = cpu->properties().target;
  if (const std::string obstacle = obstacle_to(Capability::kBf16, target); !obstacle.empty()) GTEST_SKIP() << obstacle;
  EXPECT_NEAR(bias_gradient(loss_of_rows(1, Precision::kBF16, target), std::nullopt, true), 4096, 1e-2);
}

/// 1e-9 is 0 in f16; 65536 times as much is not.
TEST(Precision, LossScalingKeepsSmallGradientsInF16) {
  const Graph loss = loss_of_rows(1e-9, Precision::kF16, with_f16());
  EXPECT_EQ(bias_gradient(loss, std::nullopt, false), 0);
  EXPECT_NEAR(bias_gradient(loss, LossScaling(), false) / 4096e-9, 1, 1e-2);
}

TEST(Precision, SaysWhereItCannotBe) {
  EXPECT_THAT(error_of([] { static_cast<void>(loss_of_rows(1, Precision::kF16, with_bf16())); }),
              testing::HasSubstr("precision f16: float16 runs on NVIDIA GPUs"));
}

/// What is frozen stays a param, which folds, and has no moments.
TEST(TrainingStep, LeavesFrozenWeightsAsParams) {
  const Gpt2Training training;
  StepRecipe recipe = golden_recipe(1);
  recipe.is_trained = [](const std::string& name) { return !name.starts_with("transformer.h.0."); };
  const TrainingStep step =
      build_training_step(training.loss({.batch = 3, .tokens = 9}, Precision::kF32, with_bf16()), recipe);
  verify(step.graph);
  const ValueId frozen = step.graph.find(ValueKind::kParam, "transformer.h.0.mlp.c_fc.weight");
  EXPECT_NE(frozen, kNoValue);
  EXPECT_EQ(step.graph.find(ValueKind::kState, first_moment_name("transformer.h.0.mlp.c_fc.weight")), kNoValue);
  EXPECT_NE(step.graph.find(ValueKind::kState, first_moment_name("transformer.h.1.mlp.c_fc.weight")), kNoValue);
  EXPECT_TRUE(std::ranges::none_of(
      step.weights, [](const TrainedWeight& weight) { return weight.name.starts_with("transformer.h.0."); }));
  recipe.is_trained = [](const std::string&) { return false; };
  EXPECT_THAT(error_of([&] {
                static_cast<void>(build_training_step(
                    training.loss({.batch = 3, .tokens = 9}, Precision::kF32, with_bf16()), recipe));
              }),
              testing::HasSubstr("nothing is left to train"));
}

TEST(CrossEntropy, IsExactForLogitsOfAnySize) {
  Graph graph("loss");
  Builder b(graph);
  const ValueId logits = graph.add_input("logits", TensorType{.shape = {3, 4}});
  const ValueId targets = graph.add_input("targets", TensorType{.dtype = DType::kI32, .shape = {3, 1}});
  graph.add_output("loss", cross_entropy(b, logits, targets, 2));
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
  EXPECT_EQ(error_of([&] { static_cast<void>(causal_lm_loss(clip, {}, kInF32)); }),
            "CLIPTextModel is no language model, as the objective causal-lm needs");
}

}  // namespace
}  // namespace headroom
