#pragma once

#include "ir/builder.hpp"
#include "ir/op_definition.hpp"

// Parts that the rules of several derivatives are made of.

namespace headroom::ops {

/// The dtype in which gradients are summed: f32, or `dtype` if it is wider.
[[nodiscard]] DType summing_dtype(DType dtype);

/// x in another shape, of as many elements.
[[nodiscard]] ValueId with_shape(Builder& builder, ValueId x, const Shape& shape);
/// The shape with an extent of 1 along each of `axes`.
[[nodiscard]] Shape with_ones(Shape shape, const Ints& axes);
/// x[..., columns] as [rows, columns].
[[nodiscard]] ValueId as_rows(Builder& builder, ValueId x);

/// The sum of x over `axes`, in `dtype`. Sums are not rounded before they are complete: a kernel sums 16 bits in f32.
[[nodiscard]] ValueId summed(Builder& builder, ValueId x, const Ints& axes, DType dtype);
/// The sum over the axes along which a tensor of type `to` is broadcast to the shape of x, in that type.
[[nodiscard]] ValueId sum_to(Builder& builder, ValueId x, TensorType to);
[[nodiscard]] ValueId zeros(Builder& builder, const TensorType& type);

}  // namespace headroom::ops
