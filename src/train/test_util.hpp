#pragma once

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <utility>

#include "backends/backend.hpp"
#include "base/switches.hpp"
#include "ir/interpreter.hpp"
#include "models/params.hpp"
#include "run/compile.hpp"
#include "run/session/session.hpp"
#include "run/weights/weight_store.hpp"
#include "train/training_step.hpp"

// For the tests of this layer; not part of the library.

namespace headroom::train_test {

/// Weights in f32, without a checkpoint.
inline const ParamSource kInF32{.dtype = [](std::string_view) { return DType::kF32; }};

/// What tests/goldens/make_training.py trains with.
inline StepRecipe golden_recipe(std::int64_t micro_batches, double average = 0) {
  return {
      .micro_batches = micro_batches,
      .adamw = {.betas = {0.9, 0.95}, .weight_decay = 0.1, .clip = 1, .average = average, .schedule = {.updates = 4}},
      .decays = [](const std::string&, const Shape& shape) { return shape.rank() > 1; }};
}
/// Its table of rates, in double precision.
inline HostTensor golden_rates(double average = 0) {
  constexpr double kRates[] = {2e-3, 4e-3, 3e-3, 1e-3};
  HostTensor rates(DType::kF64, {4, 4});
  for (int i = 0; i < 4; ++i) {
    rates.set(4 * i, kRates[i]);
    rates.set(4 * i + 1, 1 / (1 - std::pow(0.9, i + 1)));
    rates.set(4 * i + 2, 1 / std::sqrt(1 - std::pow(0.95, i + 1)));
    rates.set(4 * i + 3, 1 - std::min(average, (2.0 + i) / (11 + i)));
  }
  return rates;
}

/// Runs a graph again and again, with the states that the run before left: in the interpreter, or in a session.
class Stepper {
 public:
  virtual ~Stepper() = default;
  /// The outputs of a run.
  virtual NamedTensors run(const NamedTensors& inputs) = 0;
  [[nodiscard]] virtual HostTensor state(const std::string& name) const = 0;
};

class InterpretedSteps final : public Stepper {
 public:
  InterpretedSteps(Graph graph, NamedTensors states) : graph_(std::move(graph)), states_(std::move(states)) {}
  NamedTensors run(const NamedTensors& inputs) override {
    OracleResult made = interpret(graph_, inputs, {}, states_);
    states_ = std::move(made.states);
    return std::move(made.outputs);
  }
  [[nodiscard]] HostTensor state(const std::string& name) const override { return states_.at(name); }

 private:
  Graph graph_;
  NamedTensors states_;
};

class SessionSteps final : public Stepper {
 public:
  SessionSteps(Graph graph, const NamedTensors& states, const std::string& switches,
               DeviceKind device = DeviceKind::kCpu)
      : backend_(make_backend(device)),
        session_(compile(std::move(graph), SwitchSet::parse(switches), backend_->properties().target).program, weights_,
                 *backend_) {
    for (const auto& [name, tensor] : states) session_.set_state(name, narrowed(tensor));
  }
  NamedTensors run(const NamedTensors& inputs) override {
    for (const auto& [name, tensor] : inputs) session_.set_input(name, narrowed(tensor));
    session_.run();
    NamedTensors outputs;
    for (const Output& output : session_.program().graph.outputs())
      outputs.emplace(output.name, session_.output(output.name));
    return outputs;
  }
  [[nodiscard]] HostTensor state(const std::string& name) const override { return session_.state(name); }

 private:
  static HostTensor narrowed(const HostTensor& tensor) {
    return tensor.dtype() == DType::kF64 ? convert(tensor, DType::kF32) : tensor;
  }

  std::unique_ptr<Backend> backend_;
  WeightStore weights_{*backend_};
  Session session_;
};

}  // namespace headroom::train_test
