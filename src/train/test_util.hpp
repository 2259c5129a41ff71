#pragma once

#include <memory>
#include <string>
#include <utility>

#include "backends/backend.hpp"
#include "base/switches.hpp"
#include "ir/interpreter.hpp"
#include "run/compile.hpp"
#include "run/session/session.hpp"
#include "run/weights/weight_store.hpp"

// For the tests of this layer; not part of the library.

namespace headroom::train_test {

/// Runs a graph again and again, with the states that the run before left: in the interpreter, or in a session on a
/// CPU.
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
  SessionSteps(Graph graph, const NamedTensors& states, const std::string& switches)
      : session_(compile(std::move(graph), SwitchSet::parse(switches), cpu_->properties().target).program, weights_,
                 *cpu_) {
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

  std::unique_ptr<Backend> cpu_ = make_backend(DeviceKind::kCpu);
  WeightStore weights_{*cpu_};
  Session session_;
};

}  // namespace headroom::train_test
