#include "train/loss_scaling.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "backends/cuda/gpu_test.hpp"
#include "ir/verify.hpp"
#include "train/test_util.hpp"

namespace headroom {
namespace {

using namespace train_test;

/// The scale before each step, for good steps ('.') and bad ones ('x').
std::vector<double> scales(const LossScaling& scaling, const std::string& steps) {
  Graph graph("scaling");
  Builder b(graph);
  const ValueId is_good = graph.add_input("is_good", TensorType{.dtype = DType::kBool, .shape = {}});
  const ValueId scale = add_loss_scale(graph);
  append_loss_scaling(b, scaling, scale, is_good);
  graph.add_output("scale", b.mul_scalar(scale, 1));
  verify(graph);
  HostTensor first(DType::kF32, {});
  first.set(0, scaling.initial);
  SessionSteps session(graph,
                       {{std::string(kLossScaleState), first},
                        {std::string(kGoodStepsState), HostTensor(DType::kI32, {})},
                        {std::string(kBadStepsState), HostTensor(DType::kI32, {})}},
                       "lossless");
  std::vector<double> before;
  for (const char step : steps) {
    HostTensor good(DType::kBool, {});
    good.set(0, step == '.' ? 1 : 0);
    before.push_back(session.run({{"is_good", good}}).at("scale").at(0));
  }
  return before;
}

using Scales = std::vector<double>;

TEST(LossScaling, DoublesAfterGoodStepsAndHalvesAfterABadOne) {
  const LossScaling scaling{.initial = 8, .interval = 3, .least = 2, .most = 32};
  EXPECT_EQ(scales(scaling, "...."), (Scales{8, 8, 8, 16}));
  EXPECT_EQ(scales(scaling, "..x...."), (Scales{8, 8, 8, 4, 4, 4, 8})) << "a bad step begins the count again";
  EXPECT_EQ(scales(scaling, "xxxxx"), (Scales{8, 4, 2, 2, 2})) << "not below the least";
  EXPECT_EQ(scales(scaling, ".........."), (Scales{8, 8, 8, 16, 16, 16, 32, 32, 32, 32})) << "nor above the most";
}

TEST(LossScaling, MayWaitForASecondBadStep) {
  const LossScaling scaling{.initial = 8, .interval = 3, .patience = 2};
  EXPECT_EQ(scales(scaling, "x.x.xx."), (Scales{8, 8, 8, 8, 8, 8, 4}));
  EXPECT_EQ(scales(scaling, "xxxx."), (Scales{8, 8, 4, 4, 2}));
}

/// A loss w x, whose gradient's square overflows in f32 where that of x times the scale does.
class ScaledStep {
 public:
  explicit ScaledStep(const StepRecipe& recipe) {
    Graph loss("loss");
    Builder b(loss);
    const ValueId x = loss.add_input("x", TensorType{.shape = {2}});
    loss.add_output("loss", b.sum(b.mul(loss.add_param("w", TensorType{.shape = {2}}), x), {0}));
    graph_ = build_training_step(loss, recipe).graph;
    verify(graph_);
  }
  [[nodiscard]] SessionSteps session(double scale) const {
    NamedTensors states;
    for (const ValueId state : graph_.values_of(ValueKind::kState)) {
      const auto& [kind, name, type] = graph_.value(state);
      states.emplace(name, HostTensor(type.dtype, type.shape));
    }
    if (states.contains(kLossScaleState)) states.find(kLossScaleState)->second.set(0, scale);
    return SessionSteps(graph_, states, "lossless");
  }

 private:
  Graph graph_{"step"};
};

HostTensor row_of(double a, double b) {
  HostTensor tensor(DType::kF32, {1, 2});
  tensor.set(0, a);
  tensor.set(1, b);
  return tensor;
}

/// Overflow is forced at ten steps: each is skipped, and the others are those of a run without them, to the bit of a
/// power of 2.
TEST(LossScaling, ASkippedStepAdvancesNothing) {
  StepRecipe plain{.adamw = {.clip = 1, .schedule = {.warmup = 3, .updates = 40}}};
  StepRecipe scaled = plain;
  const double largest = std::ldexp(1, 60);
  scaled.loss_scaling = LossScaling{.initial = largest, .interval = 1, .least = 1, .most = largest};
  const ScaledStep step(scaled), reference(plain);
  SessionSteps with = step.session(largest), without = reference.session(1);
  const HostTensor rates = rate_table(plain.adamw);
  int skipped = 0, updates = 0;
  for (int i = 0; i < 30; ++i) {
    // The square of 2^60 is finite, and that of 2^66 is not; every third step is such a one.
    const bool overflows = i % 3 == 1;
    const HostTensor x = overflows ? row_of(64, 0.25) : row_of(0.5 + i / 64.0, -0.25);
    const NamedTensors found = with.run({{"x", x}, {std::string(kRatesInput), rates}});
    skipped += static_cast<int>(!std::isfinite(found.at("norm").at(0)));
    EXPECT_EQ(std::isfinite(found.at("norm").at(0)), !overflows) << i;
    if (!overflows) {
      const NamedTensors expected = without.run({{"x", x}, {std::string(kRatesInput), rates}});
      EXPECT_EQ(found.at("rate").at(0), expected.at("rate").at(0)) << i;
      EXPECT_NEAR(found.at("norm").at(0), expected.at("norm").at(0), 1e-6) << i;
      ++updates;
    }
    for (int k = 0; k < 2; ++k) EXPECT_NEAR(with.state("w").at(k), without.state("w").at(k), 1e-7) << i;
    EXPECT_EQ(with.state(std::string(kUpdatesState)).at(0), updates);
  }
  EXPECT_EQ(skipped, 10);
}

/// A linear layer in f16. At ten of thirty steps the gradient of its result is finite in f16, and overflows times the
/// scale. These steps leave the weights of a run that never saw them, and halve the scale.
void expect_ten_overflows_skipped(const Target& target,
                                  const std::function<std::unique_ptr<Stepper>(const Graph&, NamedTensors)>& open) {
  constexpr std::int64_t kRows = 64, kWidth = 16;
  Graph loss("loss");
  Builder b(loss);
  const ValueId x = loss.add_input("x", TensorType{.shape = {kRows, kWidth}});
  const ValueId y = b.linear(x, loss.add_param("w", TensorType{.shape = {kWidth, kWidth}}));  // [rows, width]
  const ValueId factor = b.reshape(loss.add_input("size", TensorType{.shape = {1}}), {});
  loss.add_output("loss", b.mul(b.sum(b.cast(y, DType::kF32), {0, 1}), factor));
  prepare_loss(loss, Precision::kF16, target);
  const StepRecipe recipe{.adamw = {.clip = 1, .schedule = {.updates = 40}}, .loss_scaling = LossScaling()};
  const Graph graph = build_training_step(loss, recipe).graph;
  verify(graph);
  NamedTensors states;
  for (const ValueId state : graph.values_of(ValueKind::kState)) {
    const auto& [kind, name, type] = graph.value(state);
    states.emplace(name, HostTensor(type.dtype, type.shape));
  }
  states.find(kLossScaleState)->second.set(0, recipe.loss_scaling->initial);
  const std::unique_ptr<Stepper> with = open(graph, states), without = open(graph, states);
  const HostTensor rates = rate_table(recipe.adamw);
  int skipped = 0;
  for (int i = 0; i < 30; ++i) {
    const bool overflows = i % 3 == 1;
    HostTensor data(DType::kF32, {1, kRows, kWidth}), size(DType::kF32, {1, 1});
    for (std::int64_t k = 0; k < data.numel(); ++k) data.set(k, static_cast<double>((k + i) % 7) / 8 + 0.125);
    size.set(0, overflows ? 2048 : 1.0 / 1024);  // times a scale of 64 to 65536; the largest number in f16 is 65504
    const NamedTensors inputs = {{"x", data}, {"size", size}, {std::string(kRatesInput), rates}};
    const NamedTensors found = with->run(inputs);
    EXPECT_EQ(found.at(std::string(kLossScaleState)).at(0), std::ldexp(65536, -skipped)) << i;
    EXPECT_EQ(std::isfinite(found.at("norm").at(0)), !overflows) << i;
    skipped += static_cast<int>(overflows);
    if (!overflows) static_cast<void>(without->run(inputs));
    EXPECT_EQ(with->state(std::string(kUpdatesState)).at(0), i + 1 - skipped);
    for (std::int64_t k = 0; k < kWidth * kWidth; ++k)
      ASSERT_NEAR(with->state("w").at(k), without->state("w").at(k), 1e-6) << i;
  }
  EXPECT_EQ(skipped, 10);
  EXPECT_LT(with->state("w").at(0), -1e-3) << "the other steps move the weights";
}

TEST(LossScaling, TenOverflowsInF16AreSkipped) {
  expect_ten_overflows_skipped({.device = DeviceKind::kCuda, .compute_capability = 90},
                               [](const Graph& graph, NamedTensors states) {
                                 return std::make_unique<InterpretedSteps>(graph, std::move(states));
                               });
}

class GpuLossScaling : public GpuTest {};

TEST_F(GpuLossScaling, TenOverflowsInF16AreSkipped) {
  expect_ten_overflows_skipped(backend().properties().target, [](const Graph& graph, const NamedTensors& states) {
    return std::make_unique<SessionSteps>(graph, states, "lossless", DeviceKind::kCuda);
  });
}

}  // namespace
}  // namespace headroom
