#pragma once

#include "kernels/core/cuda/cuda_kernel.hpp"
#include "kernels/movement/copy_cuda.hpp"

namespace headroom::cuda {

/// Elements of `dtype` from strides to others.
[[nodiscard]] inline CopyRows copy_rows(DType dtype, const Shape& extents, const Shape& from, const Shape& to) {
  const auto size = static_cast<std::int64_t>(size_of(dtype));
  CopyRows rows{.element_bytes = static_cast<int>(size), .grid = longest_grid<2>(extents, {from, to})};
  rows.grid.length *= size;
  for (int axis = 0; axis < rows.grid.rank; ++axis)
    for (std::int64_t& stride : rows.grid.strides[axis]) stride *= size;
  return rows;
}

}  // namespace headroom::cuda
