#include "ir/ops/gradient_parts.hpp"

namespace headroom::ops {

DType summing_dtype(DType dtype) { return size_of(dtype) < size_of(DType::kF32) ? DType::kF32 : dtype; }

ValueId with_shape(Builder& builder, ValueId x, const Shape& shape) {
  if (builder.shape(x) == shape) return x;
  return builder.reshape(x, {shape.dims().begin(), shape.dims().end()});
}

Shape with_ones(Shape shape, const Ints& axes) {
  for (const std::int64_t axis : axes) shape.set(static_cast<int>(axis), 1);
  return shape;
}

ValueId as_rows(Builder& builder, ValueId x) {
  const Shape shape = builder.shape(x);
  return with_shape(builder, x, Shape{shape.numel() / shape[-1], shape[-1]});
}

ValueId summed(Builder& builder, ValueId x, const Ints& axes, DType dtype) {
  if (size_of(dtype) > size_of(builder.dtype(x))) x = builder.cast(x, dtype);
  if (!axes.empty()) x = builder.sum(x, axes);
  return builder.cast(x, dtype);
}

ValueId sum_to(Builder& builder, ValueId x, TensorType to) {
  const Shape from = builder.shape(x);
  const int added = from.rank() - to.shape.rank();
  Ints axes;
  for (int axis = 0; axis < from.rank(); ++axis)
    if (axis < added || (to.shape[axis - added] == 1 && from[axis] != 1)) axes.push_back(axis);
  return with_shape(builder, summed(builder, x, axes, to.dtype), to.shape);
}

ValueId zeros(Builder& builder, const TensorType& type) { return builder.constant({0}, type.shape, type.dtype); }

}  // namespace headroom::ops
