#pragma once

#include "base/dtype_code.hpp"
#include "ir/op_code.hpp"
#include "kernels/cuda/grid_rows.hpp"

/// Between the two halves of elementwise_cuda: what is prepared and what is launched.
namespace headroom::cuda {

/// y = f(a, b, c) with an op's formula; operands a, b, c, y, those that the op lacks with strides of 0.
struct ElementwiseRows {
  Op op = Op::kRelu;
  DType dtype = DType::kF32;  ///< of y and all operands
  DType side = DType::kF32;   ///< but for b of three, which may be f32
  float scalar = 0;           ///< in place of b, where the op has one operand
  GridRows<4> grid;
};
/// `in` has the addresses of as many operands as the op has.
void launch_elementwise(void* stream, const ElementwiseRows& rows, const void* const* in, void* y);

}  // namespace headroom::cuda
