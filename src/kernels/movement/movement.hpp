#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/core/written_kernel.hpp"

/// What the kernels of reshape, transpose, concat, slice, row, pad, broadcast and constant are on every device: copies
/// between strides, and one element many times.
namespace headroom {

/// The elements that an input gives to y: `extents` of them, with the strides of each along the same axes.
struct MovedPart {
  Shape extents;
  Shape from_strides, to_strides;                   ///< in elements
  std::int64_t from_elements = 0, to_elements = 0;  ///< before the first, in the input and in y
};
/// A part for each input that is moved: one, but for concat. Of row it is the row whose index is 0. What broadcast
/// repeats has strides of 0.
[[nodiscard]] std::vector<MovedPart> moved_parts(const KernelBinding& binding);

/// Elements of y that pad gives its value to.
struct FilledPart {
  Shape extents, to_strides;
  std::int64_t to_elements = 0;
};
[[nodiscard]] std::vector<FilledPart> margins_of(const KernelBinding& binding);

/// The lowest bytes are `value` as `dtype` stores it.
[[nodiscard]] std::uint64_t bits_of(double value, DType dtype);
/// What a constant holds: one element, or all in row-major order.
[[nodiscard]] std::vector<std::byte> constant_bytes(const Attributes& attributes);

/// Any dtype, any strides; those of reshape and constant are dense.
[[nodiscard]] KernelTraits movement_traits(std::string_view name, Op op, KernelPlan (*plan)(const KernelBinding&));

}  // namespace headroom
