#pragma once

#include <cstddef>

#include "backends/backend.hpp"
#include "plan/program.hpp"
#include "run/weights/weight_store.hpp"

namespace headroom {

/// Device memory that a session of a program needs, in bytes: what is told before anything is allocated. What libraries
/// and recordings keep for themselves is not in it.
struct MemoryNeed {
  std::size_t weights = 0;  ///< as kernels want them; those that the store holds already among them
  /// And scratch: the arena, or what a caching allocator comes to hold; and outputs that are apart.
  std::size_t activations = 0;
  std::size_t workspace = 0;  ///< of the activations, the most scratch of a step
  std::size_t state = 0;
  std::size_t inputs = 0;   ///< and counters
  std::size_t loading = 0;  ///< beyond all these, for a moment while weights are folded
  std::size_t held = 0;     ///< of the weights, those in the store

  [[nodiscard]] std::size_t total() const { return weights + activations + state + inputs + loading; }
};
[[nodiscard]] MemoryNeed memory_need(const Program& program, const WeightStore& weights);

/// What the device has for a session with these weights: what is available, what a pool of this process keeps unused,
/// and what the store holds.
[[nodiscard]] std::size_t memory_for(const Backend& backend, const WeightStore& weights);

}  // namespace headroom
