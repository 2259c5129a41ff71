#pragma once

#include <cstddef>
#include <vector>

#include "base/tensors/divide_up.hpp"
#include "plan/program.hpp"

namespace headroom {

/// Sets first and last of every storage from the steps of the program. The lifetime runs from the first step that
/// uses the storage to the last step that uses it or may run concurrently with such a step. A value made before a
/// loop and read inside it is live until the loop ends; an output is live until the program ends.
void find_lifetimes(Program& program);

/// The maximum over all steps of the bytes of live arena storages: a lower bound for every assignment of offsets.
[[nodiscard]] std::size_t arena_lower_bound(const Program& program);

inline constexpr std::size_t kArenaAlignment = 256;
[[nodiscard]] constexpr std::size_t aligned_size(std::size_t bytes) { return round_up(bytes, kArenaAlignment); }

/// Assigns an offset to every arena and scratch storage so that no two that are live at the same step overlap.
/// Returns the arena's size. It tries several greedy orders (by size, by lifetime, by both, by end) and keeps the
/// smallest arena. Each order places a storage in the tightest gap among the storages that are live at the same time:
/// "Efficient Memory Management for Deep Neural Net Inference" (Pisarchyk and Lee, 2020), section 5.
[[nodiscard]] std::size_t assign_offsets(std::vector<Storage>& storages);

/// Device memory around one step of a program, in bytes.
struct StepMemory {
  std::size_t activations = 0;  ///< live while it runs, its own results included
  std::size_t made = 0;         ///< the part that is not live before it
  std::size_t scratch = 0;      ///< its own scratch
  std::size_t weights = 0;      ///< read by it
  friend bool operator==(const StepMemory&, const StepMemory&) = default;
};

/// The memory of each step, in order. Inputs, states and weights are allocated throughout and are not part of
/// activations, made or scratch. The memory of all threads for the parts of a tiled run is live throughout that run,
/// and counts as made at its first step.
[[nodiscard]] std::vector<StepMemory> memory_by_step(const Program& program);

}  // namespace headroom
