#pragma once

#include <cstdint>

#include "kernels/cuda/element.hpp"
#include "kernels/cuda/grid_rows.hpp"

/// Between the two halves of elementwise_cuda: what is prepared and what is launched.
namespace headroom::cuda {

enum class Unary : std::uint8_t { kAddScalar, kMulScalar, kRelu, kSilu, kGeluTanh, kGeluErf };
enum class Binary : std::uint8_t { kAdd, kSub, kMul };

/// y = form(x); operands x, y.
struct UnaryRows {
  Unary form = Unary::kRelu;
  Element element = Element::kF32;
  float scalar = 0;
  GridRows<2> grid;
};
void launch_unary(void* stream, const UnaryRows& rows, const void* x, void* y);

/// y = form(a, b); operands a, b, y.
struct BinaryRows {
  Binary form = Binary::kAdd;
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
