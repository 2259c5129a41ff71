#pragma once

#include <vector>

#include "ir/graph.hpp"
#include "kernels/kernel.hpp"
#include "plan/program.hpp"

namespace headroom {

/// The kernel chosen for one node that runs, with what it was chosen for.
struct ChosenKernel {
  int node = -1;  ///< index in graph.nodes()
  const Kernel* kernel = nullptr;
  OpSpec spec;
  std::vector<RejectedKernel> rejections;
};

/// Where every value lies, and which nodes need no launch because their result is a view of, or a place inside, another
/// value.
struct Placements {
  std::vector<Storage> storages;  ///< without liveness and offsets
  std::vector<Placement> places;  ///< by ValueId; storage -1 for weights and values nobody touches
  std::vector<bool> elided;       ///< by index in `chosen`
  std::vector<bool>
      state_in_place;  ///< by index in graph.state_updates(): the next value is written where the state lies
};

/// Places the values of a graph. Without `arena` every node writes a buffer of its own, except that a reshape shares
/// its operand's (as in every eager framework). With it:
///  - a slice, transpose or reshape is a view where all that read it accept its strides;
///  - the parts of a concatenation, and what a transpose or reshape rearranges, are written in place by the kernels
///  that make
///    them, where those accept the strides;
///  - a concatenation is a view where results that its parts are views of, laid one behind the other, make it one: the
///    values of two streams' merged QKV;
///  - elementwise results overwrite an operand that nobody reads again;
///  - a state's next value is written over the state where nobody reads the old one afterwards.
[[nodiscard]] Placements place_values(const Graph& graph, const std::vector<ChosenKernel>& chosen,
                                      const std::vector<bool>& is_weight, bool arena);

}  // namespace headroom
