#pragma once

#include <cstdint>

#include "ir/op_code.hpp"
#include "kernels/cuda/element.hpp"
#include "kernels/cuda/grid_rows.hpp"

/// Between the two halves of elementwise_cuda: what is prepared and what is launched.
namespace headroom::cuda {

/// y = f(x, scalar) with the formula of a unary op; operands x, y.
struct UnaryRows {
  Op op = Op::kRelu;
  Element element = Element::kF32;
  float scalar = 0;
  GridRows<2> grid;
};
void launch_unary(void* stream, const UnaryRows& rows, const void* x, void* y);

/// y = f(a, b); operands a, b, y.
struct BinaryRows {
  Op op = Op::kAdd;
  Element element = Element::kF32;
  GridRows<3> grid;
};
void launch_binary(void* stream, const BinaryRows& rows, const void* a, const void* b, void* y);

/// y = residual + gate * x; operands residual, gate, x, y.
struct GateRows {
  Element element = Element::kF32;
  Element gate = Element::kF32;  ///< that of x or f32
  GridRows<4> grid;
};
void launch_gate_residual(void* stream, const GateRows& rows, const void* residual, const void* gate, const void* x,
                          void* y);

}  // namespace headroom::cuda
