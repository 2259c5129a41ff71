#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "ir/interpreter.hpp"

namespace headroom::differential {

/// The deviations that an error bound covers in addition to the oracle's own rounding, which is always covered.
enum class Covers : std::uint8_t {
  /// A result of a dtype narrower than f32 may or may not have been rounded; f32 and f64 count as real numbers. Exact
  /// passes keep the oracle's results within this bound.
  kReals,
  /// Every result is rounded to its dtype and computed in f32. Kernels and plans keep within this bound.
  kKernels,
  /// The same on a GPU, where a library documents less of the epilogues of its matmuls.
  kCudaKernels,
  /// As kKernels, or without any rounding. Graphs keep within this bound under passes that lower precision.
  kUnrounded,
};

/// A tensor of the oracle with a bound for each element: covered computations give results within value +- error.
/// Infinite if nothing is known.
struct Bounded {
  OracleTensor value;
  std::vector<double> error;
};
using NamedBounds = std::map<std::string, Bounded, std::less<>>;

/// The results of a run: outputs by name, and the last values of the states.
struct BoundedResult {
  NamedBounds outputs;
  NamedBounds states;
};

/// Runs graphs as interpret() does, node by node with interpret_node(), and propagates an error bound with every
/// element (running error analysis: Higham, "Accuracy and stability of numerical algorithms", 2nd edition, section
/// 3.3). A discontinuity (a cast to a narrow dtype, a quantizer) adds its step only if the operand's bound reaches
/// across it. Input tensors are taken as exact.
///
/// Results are cached: parts that graphs have in common, as after a pass that rewrote little, or that loop iterations
/// have in common, are computed once.
class BoundedInterpreter {
 public:
  [[nodiscard]] BoundedResult run(const Graph& graph, const NamedTensors& inputs, const NamedTensors& params,
                                  const NamedTensors& states, Covers covers);

 private:
  class Run;
  using Shared = std::shared_ptr<const Bounded>;
  struct Made {
    Attributes attributes;
    std::vector<Shared> results;
  };
  Shared given(const HostTensor& tensor, const TensorType& type);
  const std::vector<Shared>& make(Op op, const Attributes& attributes, const std::vector<const Bounded*>& operands,
                                  Covers covers);

  // Operands are identified by their addresses, which are valid as long as these members.
  std::map<std::pair<std::string, std::vector<std::byte>>, Shared> given_;  // by type and elements
  std::map<std::tuple<Op, Covers, std::vector<const Bounded*>>, std::vector<Made>> made_;
  std::size_t elements_ = 0;  // in made_
};

/// A single graph.
[[nodiscard]] BoundedResult interpret_bounded(const Graph& graph, const NamedTensors& inputs,
                                              const NamedTensors& params, const NamedTensors& states, Covers covers);

/// One node's results with their bounds; a fused op is replaced by its plain ops.
[[nodiscard]] std::vector<Bounded> bound_node(Op op, const Attributes& attributes,
                                              const std::vector<const Bounded*>& operands, Covers covers);

/// The bounds of a tensor with the exact values of `tensor`, as a value of `type`.
[[nodiscard]] Bounded exactly(const HostTensor& tensor, const TensorType& type);

/// Whether the op has a rule or is a fused one.
[[nodiscard]] bool has_bound(Op op);

}  // namespace headroom::differential
