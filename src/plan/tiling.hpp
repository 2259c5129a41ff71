#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "ir/graph.hpp"
#include "plan/placement.hpp"

namespace headroom {

/// The `tile` switch. Layer by layer, what one step writes has left a core's cache before the next reads it, as soon as
/// a batch is large. Where several steps each treat the samples (entries of the leading axis) of a batch by themselves,
/// they can be run for a few samples at a time instead, by one thread from the first step to the last: what passes
/// between them then stays in that core's second-level cache, beside the weights, which every part reads again
/// ("Fused-Layer CNN Accelerators", Alwani et al. 2016; loop tiling across layers).

/// One operand of a step, for a part.
struct PartOperand {
  Operand operand;
  std::size_t bytes_between = 0;  ///< from a part's elements to those of the next; 0 where all parts share them
};

/// A step's work on a part.
struct PartOfStep {
  OpSpec spec;
  std::vector<PartOperand> inputs, outputs;
};

/// Nodes to run so, in schedule order.
struct Tile {
  std::size_t first = 0, last = 0;  ///< [first, last) in the chosen kernels
  std::int64_t parts = 1;           ///< of equally many samples
  std::vector<PartOfStep> steps;    ///< of the kernels that are not elided
  std::vector<int> inside;          ///< storages that nothing else touches: of those, one part is needed at a time
};

/// Where to do that: cuts the schedule so that the fewest bytes pass between a core's second-level cache and what lies
/// behind it, by dynamic programming over all cuts. A tile must fit in half of that cache, the weights that it reads
/// included; its parts must keep all threads equally busy and have rows enough for products to run well.
[[nodiscard]] std::vector<Tile> find_tiles(const Graph& graph, const std::vector<ChosenKernel>& chosen,
                                           const Placements& placements, const std::vector<bool>& is_weight,
                                           const Target& target);

}  // namespace headroom
