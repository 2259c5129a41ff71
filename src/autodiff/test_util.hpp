#pragma once

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "autodiff/differentiate.hpp"
#include "base/error.hpp"
#include "base/tensors/host_tensor.hpp"
#include "base/tensors/random.hpp"
#include "ir/builder.hpp"
#include "ir/interpreter.hpp"

// Gradients of small graphs, for the tests of this layer; not part of the library.

namespace headroom::testing_tools {

/// A loss with its gradients as outputs. The graph is written in the constructor's function; its inputs are those that
/// `input` declares.
class LossGraph {
 public:
  [[nodiscard]] Builder& builder() { return builder_; }
  Builder* operator->() { return &builder_; }

  ValueId input(const TensorType& type) {
    inputs_.push_back(builder_.graph().add_input(std::to_string(inputs_.size()), type));
    return inputs_.back();
  }
  ValueId input(const Shape& shape, DType dtype = DType::kF32) { return input(TensorType{dtype, shape}); }

  /// The sum of the products of each value with weights of its type, which are drawn: a gradient of ones would hide
  /// what the rules do with different ones.
  ValueId weighted_sum(const std::vector<ValueId>& values) {
    ValueId loss = kNoValue;
    for (const ValueId value : values) {
      const TensorType type = builder_.graph().type(value);
      std::vector<float> draws(static_cast<std::size_t>(type.shape.numel()));
      fill_normal(draws, 99, index_of(value));
      const ValueId weights = builder_.constant({draws.begin(), draws.end()}, type.shape, type.dtype);
      const ValueId sum = total(builder_.mul(value, weights));
      loss = loss == kNoValue ? sum : builder_.add(loss, sum);
    }
    return loss;
  }
  /// The sum of all elements.
  ValueId total(ValueId value) {
    const int rank = builder_.shape(value).rank();
    std::vector<std::int64_t> axes;
    for (int axis = 0; axis < rank; ++axis) axes.push_back(axis);
    return axes.empty() ? value : builder_.sum(value, axes);
  }

  /// Makes the loss the output "loss" and the gradients of `wrt` the outputs "d0", "d1", ...
  void differentiate(ValueId loss, const std::vector<ValueId>& wrt) {
    builder_.graph().add_output("loss", loss);
    const std::vector<ValueId> gradients = headroom::differentiate(builder_, loss, wrt);
    for (std::size_t i = 0; i < gradients.size(); ++i)
      builder_.graph().add_output("d" + std::to_string(i), gradients[i]);
  }

  /// The outputs for these inputs, which are f64 or integers.
  [[nodiscard]] NamedTensors run(const std::vector<HostTensor>& given) const {
    HR_CHECK_EQ(given.size(), inputs_.size());
    NamedTensors inputs;
    for (std::size_t i = 0; i < given.size(); ++i) inputs.emplace(std::to_string(i), given[i]);
    return interpret(graph_, inputs, {}).outputs;
  }
  [[nodiscard]] const Graph& graph() const { return graph_; }

 private:
  Graph graph_{"loss"};
  Builder builder_{graph_};
  std::vector<ValueId> inputs_;
};

inline HostTensor doubles(const Shape& shape, const std::vector<double>& values) {
  HostTensor tensor(DType::kF64, shape);
  HR_CHECK_EQ(static_cast<std::size_t>(tensor.numel()), values.size());
  std::ranges::copy(values, tensor.as<double>().begin());
  return tensor;
}

inline std::vector<double> values_of(const HostTensor& tensor) {
  std::vector<double> values;
  for (std::int64_t i = 0; i < tensor.numel(); ++i) values.push_back(tensor.at(i));
  return values;
}

}  // namespace headroom::testing_tools
