#pragma once

#include <cstddef>
#include <vector>

#include "plan/program.hpp"

namespace headroom {

inline constexpr std::size_t kArenaAlignment = 256;
[[nodiscard]] constexpr std::size_t aligned_size(std::size_t bytes) {
  return (bytes + kArenaAlignment - 1) / kArenaAlignment * kArenaAlignment;
}

/// Gives every arena and scratch storage an offset such that no two that live at the same step overlap, and returns the
/// arena's size. Tries several greedy orders (by size, by lifetime, by both, by end), each placing a storage in the
/// tightest gap among its neighbours in time, and keeps the smallest: "Efficient Memory Management for Deep Neural Net
/// Inference" (Pisarchyk and Lee, 2020), section 5.
[[nodiscard]] std::size_t assign_offsets(std::vector<Storage>& storages);

}  // namespace headroom
