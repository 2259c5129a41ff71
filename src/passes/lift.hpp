#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "ir/graph.hpp"

namespace headroom {

/// An operand of a node that is executed once for all steps of a loop: a value that is the same in every step, or a
/// lifted one, which holds all of them along a leading axis, [steps, ...].
struct LiftOperand {
  ValueId value = kNoValue;
  bool lifted = false;
};

/// Makes a node that runs before the loop and returns its first result.
using EmitLifted = std::function<ValueId(Op op, std::vector<ValueId> inputs, Attributes attributes)>;

/// Emits nodes that compute the result of `node` for all `steps` at once, and returns it, [steps, ...]: row i is the
/// result of step i. `operands` replace the node's inputs; at least one is lifted. Returns kNoValue if the node
/// cannot be lifted; it may then have emitted nodes that nothing reads.
[[nodiscard]] ValueId lift(const Graph& graph, const Node& node, std::span<const LiftOperand> operands,
                           std::int64_t steps, const EmitLifted& emit);

}  // namespace headroom
