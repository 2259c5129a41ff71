#pragma once

#include <vector>

#include "kernels/written_kernel.hpp"

/// What the kernels of reshape, transpose, concat, slice and row are on every device: copies between strides.
namespace headroom {

/// The elements that an input gives to y: `extents` of them, with the strides of each along the same axes.
struct MovedPart {
  Shape extents;
  Shape from_strides, to_strides;                   ///< in elements
  std::int64_t from_elements = 0, to_elements = 0;  ///< before the first, in the input and in y
};
/// A part for each input that is moved: one, but for concat. Of row it is the row whose index is 0.
[[nodiscard]] std::vector<MovedPart> moved_parts(const KernelBinding& binding);

/// Any dtype, any strides; those of reshape are dense.
[[nodiscard]] KernelTraits movement_traits(std::string_view name, Op op, KernelPlan (*plan)(const KernelBinding&));

}  // namespace headroom
