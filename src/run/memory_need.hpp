#pragma once

#include <cstddef>

#include "backends/backend.hpp"
#include "plan/program.hpp"
#include "run/weights/weight_store.hpp"

namespace headroom {

/// Device memory that a session of a program needs, in bytes, computed before anything is allocated. Memory that
/// libraries and recordings keep for themselves is not included.
struct MemoryNeed {
  std::size_t weights = 0;  ///< in the kernels' formats, including those that the store holds already
  /// With scratch: the arena, or the memory that the caching allocator will hold; and outputs with their own memory.
  std::size_t activations = 0;
  std::size_t workspace = 0;  ///< the part of the activations that is the largest scratch of a step
  std::size_t state = 0;
  std::size_t inputs = 0;   ///< and counters
  std::size_t loading = 0;  ///< additional peak while weights are folded
  std::size_t held = 0;     ///< the part of the weights that is in the store
  std::size_t freed = 0;    ///< of other memory on the device, while weights are loaded

  [[nodiscard]] std::size_t total() const { return weights + activations + state + inputs + loading; }
};
/// Of a session with that of its setup, if it has one.
[[nodiscard]] MemoryNeed memory_need(const Program& program, const WeightStore& weights);
/// Of the program without its setup, which is loaded and unloaded separately.
[[nodiscard]] MemoryNeed memory_need_alone(const Program& program, const WeightStore& weights);

/// Device memory for a session with these weights: the available memory, unused memory in pools of this process, and
/// the memory of the store.
[[nodiscard]] std::size_t memory_for(const Backend& backend, const WeightStore& weights);

}  // namespace headroom
