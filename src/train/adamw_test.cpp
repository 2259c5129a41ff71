#include "train/adamw.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/test_paths.hpp"
#include "base/test_util.hpp"
#include "base/text/json.hpp"
#include "ir/verify.hpp"
#include "train/test_util.hpp"

namespace headroom {
namespace {

using namespace train_test;

/// PyTorch's AdamW in double precision (tests/goldens/make_training.py) on a matrix, which decays, and a vector, which
/// does not.
class AdamWGolden {
 public:
  AdamWGolden() : golden_(read_json(source_dir(kSourceDir) / "tests/goldens/train/adamw.json")) {
    adamw_ = {.betas = golden_["betas"].get<std::array<double, 2>>(),
              .epsilon = golden_["epsilon"],
              .weight_decay = golden_["weight_decay"],
              .clip = golden_["clip"],
              .schedule = {.updates = std::ssize(rates())}};
    Builder b(graph_);
    std::vector<TrainedWeight> weights;
    std::vector<ValueId> gradients;
    for (std::size_t i = 0; i < shapes_.size(); ++i) {
      const TensorType type{.shape = shapes_[i]};
      weights.push_back({.name = name(i), .value = graph_.add_state(name(i), type), .decays = shapes_[i].rank() > 1});
      gradients.push_back(graph_.add_input("gradient" + std::to_string(i), type));
    }
    const Updated updated = append_adamw(b, adamw_, weights, gradients);
    graph_.add_output("norm", updated.norm);
    graph_.add_output("rate", updated.rate);
    verify(graph_);
  }

  [[nodiscard]] const Graph& graph() const { return graph_; }
  [[nodiscard]] const nlohmann::json& golden() const { return golden_; }
  [[nodiscard]] std::vector<double> rates() const { return golden_["rates"]; }
  [[nodiscard]] static std::string name(std::size_t i) { return "w" + std::to_string(i); }

  [[nodiscard]] NamedTensors states() const {
    NamedTensors states{{std::string(kUpdatesState), HostTensor(DType::kI32, {})}};
    for (std::size_t i = 0; i < shapes_.size(); ++i) {
      states.emplace(name(i), tensor(golden_["weights"][i], i));
      states.emplace(first_moment_name(name(i)), HostTensor(DType::kF32, shapes_[i]));
      states.emplace(second_moment_name(name(i)), HostTensor(DType::kF32, shapes_[i]));
    }
    return states;
  }
  [[nodiscard]] NamedTensors inputs(std::size_t step) const {
    HostTensor table = rate_table(adamw_);
    for (std::size_t i = 0; i < rates().size(); ++i) table.set(4 * static_cast<std::int64_t>(i), rates()[i]);
    NamedTensors inputs{{std::string(kRatesInput), table}};
    for (std::size_t i = 0; i < shapes_.size(); ++i)
      inputs.emplace("gradient" + std::to_string(i), tensor(golden_["steps"][step]["gradients"][i], i));
    return inputs;
  }
  void expect_states(const Stepper& stepper, std::size_t step) const {
    const nlohmann::json& expected = golden_["steps"][step];
    for (std::size_t i = 0; i < shapes_.size(); ++i) {
      expect_close(stepper.state(name(i)), expected["weights"][i]);
      expect_close(stepper.state(first_moment_name(name(i))), expected["first"][i]);
      expect_close(stepper.state(second_moment_name(name(i))), expected["second"][i]);
    }
  }

 private:
  static void expect_close(const HostTensor& found, const nlohmann::json& expected) {
    for (std::int64_t i = 0; i < found.numel(); ++i)
      EXPECT_NEAR(found.at(i), expected[static_cast<std::size_t>(i)].get<double>(), 1e-6) << "element " << i;
  }
  [[nodiscard]] HostTensor tensor(const nlohmann::json& values, std::size_t i) const {
    HostTensor tensor(DType::kF32, shapes_[i]);
    for (std::int64_t k = 0; k < tensor.numel(); ++k) tensor.set(k, values[static_cast<std::size_t>(k)].get<double>());
    return tensor;
  }

  nlohmann::json golden_;
  AdamW adamw_;
  std::vector<Shape> shapes_{{2, 3}, {4}};
  Graph graph_{"adamw"};
};

void expect_as_pytorch(const AdamWGolden& golden, Stepper& stepper) {
  for (std::size_t step = 0; step < golden.rates().size(); ++step) {
    const NamedTensors outputs = stepper.run(golden.inputs(step));
    EXPECT_NEAR(outputs.at("norm").at(0), golden.golden()["steps"][step]["norm"].get<double>(), 1e-6);
    EXPECT_NEAR(outputs.at("rate").at(0), golden.rates()[step], 1e-9);
    golden.expect_states(stepper, step);
  }
}

TEST(AdamW, UpdatesAsPyTorchDoes) {
  const AdamWGolden golden;
  InterpretedSteps interpreted(golden.graph(), golden.states());
  expect_as_pytorch(golden, interpreted);
  for (const char* switches : {"baseline", "lossless"}) {
    SessionSteps session(golden.graph(), golden.states(), switches);
    expect_as_pytorch(golden, session);
  }
}

TEST(AdamW, SkipsAStepWhoseNormIsNotFinite) {
  const AdamWGolden golden;
  for (const double bad : {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
    SessionSteps session(golden.graph(), golden.states(), "lossless");
    static_cast<void>(session.run(golden.inputs(0)));
    NamedTensors inputs = golden.inputs(1);
    inputs.at("gradient1").set(2, bad);
    EXPECT_FALSE(std::isfinite(session.run(inputs).at("norm").at(0)));
    golden.expect_states(session, 0);
    // The next one takes the rate and the corrections of the skipped one.
    static_cast<void>(session.run(golden.inputs(1)));
    golden.expect_states(session, 1);
    EXPECT_EQ(session.state(std::string(kUpdatesState)).at(0), 2);
  }
}

TEST(RateSchedule, WarmsUpAndDecays) {
  const auto rates = [](const RateSchedule& schedule) {
    std::vector<double> each;
    for (std::int64_t i = 0; i < schedule.updates; ++i) each.push_back(schedule.rate(i));
    return each;
  };
  using Kind = RateSchedule::Kind;
  EXPECT_EQ(rates({.kind = Kind::kConstant, .peak = 2, .warmup = 2, .updates = 4}), (std::vector<double>{1, 2, 2, 2}));
  EXPECT_EQ(rates({.kind = Kind::kLinear, .peak = 2, .final_share = 0, .warmup = 2, .updates = 5}),
            (std::vector<double>{1, 2, 2, 1, 0}));
  EXPECT_EQ(rates({.kind = Kind::kLinear, .peak = 2, .final_share = 0.5, .updates = 3}),
            (std::vector<double>{2, 1.5, 1}));
  const std::vector<double> cosine = rates({.peak = 1, .final_share = 0.1, .updates = 5});
  EXPECT_EQ(cosine.front(), 1);
  EXPECT_NEAR(cosine[1], 0.1 + 0.9 * 0.5 * (1 + std::sqrt(0.5)), 1e-15);
  EXPECT_NEAR(cosine[2], 0.55, 1e-15);
  EXPECT_NEAR(cosine.back(), 0.1, 1e-15);
}

}  // namespace
}  // namespace headroom
