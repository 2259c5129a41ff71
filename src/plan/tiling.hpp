#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "ir/graph.hpp"
#include "plan/placement.hpp"

namespace headroom {

/// The `tile` switch. With a large batch, executed layer by layer, the result of one step has left a core's cache
/// before the next step reads it. If several consecutive steps treat the samples (entries of the leading axis) of a
/// batch independently, one thread can run all of them for some samples at a time. The intermediate results then stay
/// in the second-level cache of that core, together with the weights, which every part reads again. See "Fused-Layer
/// CNN Accelerators" (Alwani et al., 2016): loop tiling across layers.

/// One operand of a step, for one part of the samples.
struct PartOperand {
  Operand operand;
  /// distance from the elements of one part to those of the next; 0 if all parts share them
  std::size_t bytes_between = 0;
};

/// The work of a step on one part.
struct PartOfStep {
  OpSpec spec;
  std::vector<PartOperand> inputs, outputs;
};

/// Consecutive nodes to run part by part, in schedule order.
struct Tile {
  std::size_t first = 0, last = 0;  ///< [first, last) in the chosen kernels
  std::int64_t parts = 1;           ///< of equal numbers of samples
  std::vector<PartOfStep> steps;    ///< of the kernels that are not elided
  std::vector<int> inside;          ///< storages used only inside the tile; memory for one part of each is enough
};

/// Finds the tiles: cuts the schedule so that the least bytes pass between a core's second-level cache and the memory
/// beyond it, by dynamic programming over all cuts. A tile, with the weights that it reads, must fit in half of that
/// cache. Its parts must keep all threads equally busy and have enough rows for efficient matmuls.
[[nodiscard]] std::vector<Tile> find_tiles(const Graph& graph, const std::vector<ChosenKernel>& chosen,
                                           const Placements& placements, const std::vector<bool>& is_weight,
                                           const Target& target);

}  // namespace headroom
