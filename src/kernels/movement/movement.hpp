#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/core/written_kernel.hpp"

/// Shared by all devices: reshape, transpose, concat, slice, row, pad, broadcast and constant as strided copies and
/// fills.
namespace headroom {

/// The elements that an input contributes to y: `extents` of them, with the strides of both along the same axes.
struct MovedPart {
  Shape extents;
  Shape from_strides, to_strides;                   ///< in elements
  std::int64_t from_elements = 0, to_elements = 0;  ///< before the first, in the input and in y
};
/// One part for each input that is moved: one, except for concat. For row it is the row with index 0. A broadcast
/// axis has a stride of 0.
[[nodiscard]] std::vector<MovedPart> moved_parts(const KernelBinding& binding);

/// Elements of y that pad fills with its value.
struct FilledPart {
  Shape extents, to_strides;
  std::int64_t to_elements = 0;
};
[[nodiscard]] std::vector<FilledPart> margins_of(const KernelBinding& binding);

/// The lowest bytes are `value` as `dtype` stores it.
[[nodiscard]] std::uint64_t bits_of(double value, DType dtype);
/// The bytes of a constant: one element, or all in row-major order.
[[nodiscard]] std::vector<std::byte> constant_bytes(const Attributes& attributes);

/// Any dtype, any strides; those of reshape and constant are dense.
[[nodiscard]] KernelTraits movement_traits(std::string_view name, Op op, KernelPlan (*plan)(const KernelBinding&));

}  // namespace headroom
