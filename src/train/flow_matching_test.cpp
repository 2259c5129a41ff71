#include "train/flow_matching.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/test_paths.hpp"
#include "base/test_util.hpp"
#include "base/text/json.hpp"
#include "io/safetensors.hpp"
#include "ir/verify.hpp"
#include "train/test_util.hpp"

namespace headroom {
namespace {

using namespace train_test;

constexpr double kAverage = 0.25;

/// A tiny FLUX as PyTorch and diffusers train it in double precision (tests/goldens/make_training.py).
class FlowTraining {
 public:
  explicit FlowTraining(std::int64_t micro_batches) : micro_batches_(micro_batches) {
    const FlowShape shape{.batch = 3 / micro_batches, .rows = 3, .columns = 3, .text_tokens = 2, .classes = 3};
    step_ = build_training_step(flow_matching_loss(config_, shape, kInF32, micro_batches),
                                golden_recipe(micro_batches, kAverage));
    verify(step_.graph);
  }
  [[nodiscard]] const Graph& graph() const { return step_.graph; }
  [[nodiscard]] NamedTensors states(DType dtype) const {
    NamedTensors states;
    for (const ValueId state : step_.graph.values_of(ValueKind::kState)) {
      const auto& [kind, name, type] = step_.graph.value(state);
      states.emplace(name, HostTensor(type.dtype == DType::kI32 ? type.dtype : dtype, type.shape));
    }
    for (const TrainedWeight& weight : step_.weights)
      states.at(weight.name) = states.at(average_name(weight.name)) =
          convert(golden_.read("start." + weight.name), dtype);
    return states;
  }
  void expect(Stepper& stepper, double tolerance) const {
    for (std::int64_t step = 0; step < 4; ++step) {
      const NamedTensors outputs = stepper.run(inputs(step));
      const double loss = golden_.read("losses").at(step), norm = golden_.read("norms").at(step);
      EXPECT_NEAR(outputs.at("loss").at(0) / loss, 1, step == 0 ? tolerance / 100 : 10 * tolerance) << step;
      EXPECT_NEAR(outputs.at("norm").at(0) / norm, 1, 10 * tolerance) << step;
    }
    for (const TrainedWeight& weight : step_.weights) {
      EXPECT_LT(relative_l2(stepper.state(weight.name), golden_.read(weight.name)), tolerance) << weight.name;
      EXPECT_LT(relative_l2(stepper.state(average_name(weight.name)), golden_.read("average." + weight.name)),
                tolerance)
          << weight.name;
    }
    EXPECT_EQ(3 * step_.weights.size() + 6, golden_.entries().size());
  }

 private:
  [[nodiscard]] NamedTensors inputs(std::int64_t step) const {
    NamedTensors inputs{{std::string(kRatesInput), golden_rates(kAverage)}};
    for (const ValueId input : step_.graph.values_of(ValueKind::kInput)) {
      const auto& [kind, name, type] = step_.graph.value(input);
      if (name == kRatesInput) continue;
      const HostTensor all = golden_.read(name);
      HostTensor part(type.dtype, type.shape);
      for (std::int64_t i = 0; i < part.numel(); ++i) part.set(i, all.at(step * part.numel() + i));
      inputs.emplace(name, std::move(part));
    }
    return inputs;
  }

  SafetensorsFile golden_ = SafetensorsFile::open(source_dir(kSourceDir) / "tests/goldens/train/flow.safetensors");
  nlohmann::json config_ = parse_json(golden_.metadata().at("config"), "flow.safetensors");
  std::int64_t micro_batches_;
  TrainingStep step_;
};

TEST(FlowMatching, TrainsAsPyTorchInDoublePrecision) {
  const FlowTraining training(1);
  InterpretedSteps steps(training.graph(), training.states(DType::kF64));
  training.expect(steps, 1e-6);  // Adam's quotients of small moments magnify the rounding of doubles
}

TEST(FlowMatching, TrainsAsPyTorchByKernels) {
  for (const std::int64_t micro_batches : {1, 3}) {
    const FlowTraining training(micro_batches);
    SessionSteps steps(training.graph(), training.states(DType::kF32), "lossless");
    training.expect(steps, 1e-4);
  }
}

TEST(FlowMatching, LevelsAreThoseOfTheOptions) {
  constexpr std::int64_t kCount = 20'000;
  const auto levels = [](const FlowOptions& options) {
    std::vector<double> drawn;
    for (std::int64_t i = 0; i < kCount; ++i) drawn.push_back(noise_level(options, 5, i));
    std::ranges::sort(drawn);
    return drawn;
  };
  // Quartiles: of uniform numbers, of sigmoids of normal ones (at -+0.6745), and of both after FLUX's shift.
  const std::vector<double> uniform = levels({.uniform = 1, .shift = 0});
  const std::vector<double> logit_normal = levels({.uniform = 0, .shift = 0});
  const std::vector<double> shifted = levels({.uniform = 0, .shift = 0.5});
  for (const double quartile : {0.25, 0.5, 0.75}) {
    const auto at = static_cast<std::size_t>(quartile * kCount);
    const double normal = quartile == 0.5 ? 0 : 0.6745 * (quartile < 0.5 ? -1 : 1);
    EXPECT_NEAR(uniform[at], quartile, 0.01);
    EXPECT_NEAR(logit_normal[at], 1 / (1 + std::exp(-normal)), 0.01);
    EXPECT_NEAR(shifted[at], 1 / (1 + std::exp(-normal - 0.5)), 0.01);
  }
  EXPECT_EQ(noise_level({}, 5, 77), noise_level({}, 5, 77));
  EXPECT_NE(noise_level({}, 5, 77), noise_level({}, 6, 77));
}

TEST(FlowMatching, RefusesOtherModels) {
  const nlohmann::json gpt = {{"architectures", {"GPT2LMHeadModel"}}};
  EXPECT_EQ(error_of([&] { static_cast<void>(flow_matching_loss(gpt, {}, kInF32, 1)); }),
            "the objective flow-matching trains a FluxTransformer2DModel, not a GPT2LMHeadModel");
}

}  // namespace
}  // namespace headroom
