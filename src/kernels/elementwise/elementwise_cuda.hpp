#pragma once

#include "base/tensors/dtype_code.hpp"
#include "ir/op_code.hpp"
#include "kernels/core/cuda/grid_rows.hpp"
#include "kernels/elementwise/elementwise_scalars.hpp"

/// The interface of elementwise_cuda and functions_cuda between their host and device halves.
namespace headroom::cuda {

/// y = f(a, b, c) with an op's formula; operands a, b, c, y; absent operands have strides of 0.
struct ElementwiseRows {
  Op op = Op::kRelu;
  DType dtype = DType::kF32;  ///< of y and all operands
  DType side = DType::kF32;   ///< of b of three operands: f32 or `dtype`
  Scalars scalars;            ///< in place of b and c, if the op has one operand
  GridRows<4> grid;
};
/// `in` has one address per operand of the op.
void launch_elementwise(void* stream, const ElementwiseRows& rows, const void* const* in, void* y);
/// The same for functions of one operand, in a translation unit of its own.
void launch_function(void* stream, const ElementwiseRows& rows, const void* const* in, void* y);

/// A comparison, a select, or an op of i32 or i64: y = f(a, b), y = condition ? a : b. Operands a, b, y or
/// condition, a, b, y.
struct PlainRows {
  Op op = Op::kSelect;
  DType dtype = DType::kF32;  ///< of a and b
  std::int64_t b = 0, c = 0;  ///< in place of operands, if the op has one
  bool has_b = false;
  GridRows<4> grid;  ///< the operands in their order, then y
};
void launch_plain(void* stream, const PlainRows& rows, const void* const* in, void* y);

}  // namespace headroom::cuda
