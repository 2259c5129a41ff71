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

/// What an error bound has to cover beside the oracle's own rounding, which it always does.
enum class Covers : std::uint8_t {
  /// A result of a dtype narrower than f32 may or may not have been rounded; f32 and f64 are reals. Exact passes keep
  /// what the oracle computes within this.
  kReals,
  /// Every result has been rounded to its dtype, and computed in f32. Kernels and plans keep within this.
  kKernels,
  /// The same on a GPU, where a library documents less of what it computes behind its products.
  kCudaKernels,
  /// As kKernels, and nothing may have been rounded at all. Graphs keep within this under passes that lower precision.
  kUnrounded,
};

/// A tensor of the oracle, and for each element a bound: what the covered ways of computing give lies within
/// value +- error. Infinite where nothing can be said.
struct Bounded {
  OracleTensor value;
  std::vector<double> error;
};
using NamedBounds = std::map<std::string, Bounded, std::less<>>;

/// What a run leaves: outputs by name, and the states' last values.
struct BoundedResult {
  NamedBounds outputs;
  NamedBounds states;
};

/// Runs graphs as interpret() does, node by node with interpret_node(), and carries an error bound along with every
/// element (running error analysis: Higham, "Accuracy and stability of numerical algorithms", 2nd edition, section
/// 3.3). A discontinuity (a cast to a narrow dtype, a quantizer) adds the step only where its operand's bound reaches
/// over it. All tensors are taken as exact, as they are given.
///
/// Keeps what it has computed: what one graph has in common with the next, as after a pass that rewrote little of it, or
/// one iteration of a loop with another, is computed once.
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

  // Operands are known by their addresses, which last as long as these.
  std::map<std::pair<std::string, std::vector<std::byte>>, Shared> given_;  // by type and elements
  std::map<std::tuple<Op, Covers, std::vector<const Bounded*>>, std::vector<Made>> made_;
  std::size_t elements_ = 0;  // of made_
};

/// One graph by itself.
[[nodiscard]] BoundedResult interpret_bounded(const Graph& graph, const NamedTensors& inputs,
                                              const NamedTensors& params, const NamedTensors& states, Covers covers);

/// One node's results with their bounds; fused ops by the plain ops that they stand for.
[[nodiscard]] std::vector<Bounded> bound_node(Op op, const Attributes& attributes,
                                              const std::vector<const Bounded*>& operands, Covers covers);

/// The bounds of a tensor that is exactly `tensor`, as a value of `type`.
[[nodiscard]] Bounded exactly(const HostTensor& tensor, const TensorType& type);

/// Whether there is a rule for the op, or it is a fused one.
[[nodiscard]] bool has_bound(Op op);

}  // namespace headroom::differential
