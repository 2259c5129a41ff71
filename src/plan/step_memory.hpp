#pragma once

#include <cstddef>
#include <vector>

#include "plan/program.hpp"

namespace headroom {

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
