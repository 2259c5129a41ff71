#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "ir/graph.hpp"

/// Collectives: ops whose result also depends on the operands of other ranks (OpDefinition::is_collective). Each rank
/// of a request has a graph of its own, with the same collectives in the same order; other nodes may differ.
namespace headroom {

/// The type of the operand that member `member` of the group has at a collective of which this rank's operand is
/// `own`: ranks may have shares of different sizes.
[[nodiscard]] TensorType operand_of_member(Op op, const Attributes& attributes, const TensorType& own,
                                           std::size_t member);

/// A collective, as far as ranks must agree on it.
struct Collective {
  std::string text;         ///< for all ranks: "all_gather of f32 by 2 ranks at blocks.0.attn"
  Ints group;               ///< the ranks that take part,
  std::string with_shares;  ///< and for these alone: "[1, *, 16] along axis 1, shares 3, 4, in group 0, 1"
};
/// The collectives of a graph in the order of its schedule.
[[nodiscard]] std::vector<Collective> collectives_of(const Graph& graph);

/// Throws Error that names the first difference if the ranks' graphs, in the order of the ranks, have other
/// collectives or another order.
void require_equal_collectives(std::span<const Graph* const> graphs);

}  // namespace headroom
