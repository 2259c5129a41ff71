#pragma once

#include <cstddef>
#include <vector>

#include "base/tensors/divide_up.hpp"
#include "plan/program.hpp"

namespace headroom {

/// Fills in first and last of every storage from the program's steps: from the first step that touches it to the last
/// that touches it or may run beside one that does.
/// What is made before a loop and read inside it is needed until the loop ends; what the program puts out, until the
/// program ends.
void find_lifetimes(Program& program);

/// The most bytes of arena storages live at any one step: no assignment of offsets can need less.
[[nodiscard]] std::size_t arena_lower_bound(const Program& program);

inline constexpr std::size_t kArenaAlignment = 256;
[[nodiscard]] constexpr std::size_t aligned_size(std::size_t bytes) { return round_up(bytes, kArenaAlignment); }

/// Gives every arena and scratch storage an offset such that no two that live at the same step overlap, and returns the
/// arena's size. Tries several greedy orders (by size, by lifetime, by both, by end), each placing a storage in the
/// tightest gap among its neighbours in time, and keeps the smallest: "Efficient Memory Management for Deep Neural Net
/// Inference" (Pisarchyk and Lee, 2020), section 5.
[[nodiscard]] std::size_t assign_offsets(std::vector<Storage>& storages);

/// Device memory around one step of a program, in bytes.
struct StepMemory {
  std::size_t activations = 0;  ///< held while it runs: all that is needed then, its own results among it
  std::size_t made = 0;         ///< of those, what is not held before it
  std::size_t scratch = 0;      ///< its own
  std::size_t weights = 0;      ///< that it reads
  friend bool operator==(const StepMemory&, const StepMemory&) = default;
};

/// By step, in order. Inputs, states and weights are held throughout and in none of the first three. What all threads
/// need for the parts of a tiled run is held throughout that run, and made where it begins.
[[nodiscard]] std::vector<StepMemory> memory_by_step(const Program& program);

}  // namespace headroom
