#pragma once

// Host code that the files of kernels share.

#include <cuda_runtime_api.h>

#include <cstdint>
#include <initializer_list>

#include "backends/cuda/early_launch.cuh"
#include "base/tensors/divide_up.hpp"
#include "kernels/core/cuda/grid_rows.hpp"
#include "kernels/core/cuda/launched.hpp"

namespace headroom::cuda {

/// Whether every row of every operand that is not repeated can be read in whole packs of `width` elements from aligned
/// addresses: `pack_bytes` for each operand, or less where the operand's elements are smaller.
template <int N>
bool is_aligned(const GridRows<N>& grid, int width, std::initializer_list<const void*> operands,
                std::uintptr_t bytes = 16) {
  for (const void* operand : operands)
    if (reinterpret_cast<std::uintptr_t>(operand) % bytes != 0) return false;
  for (int axis = 0; axis < grid.rank; ++axis)
    for (int k = 0; k < N; ++k)
      if (!grid.repeats[k] && grid.extents[axis] > 1 && grid.strides[axis][k] % width != 0) return false;
  return true;
}

/// A grid of `blocks` blocks along x, which takes 2^31 - 1.
inline dim3 blocks_along_x(std::int64_t blocks) { return dim3(static_cast<unsigned>(blocks)); }

}  // namespace headroom::cuda
