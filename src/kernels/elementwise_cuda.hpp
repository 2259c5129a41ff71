#pragma once

#include <cstdint>

#include "kernels/cuda/grid_rows.hpp"

/// Between the two halves of elementwise_cuda: what is prepared and what is launched.
namespace headroom::cuda {

enum class Unary : std::uint8_t { kAddScalar, kMulScalar, kRelu, kSilu, kGeluTanh, kGeluErf };
enum class Binary : std::uint8_t { kAdd, kSub, kMul };

/// y = form(x); operands x, y.
struct UnaryRows {
  Unary form = Unary::kRelu;
  bool is_bf16 = false;
  float scalar = 0;
  GridRows<2> grid;
};
void launch_unary(void* stream, const UnaryRows& rows, const void* x, void* y);

/// y = form(a, b); operands a, b, y.
struct BinaryRows {
  Binary form = Binary::kAdd;
  bool is_bf16 = false;
  GridRows<3> grid;
};
void launch_binary(void* stream, const BinaryRows& rows, const void* a, const void* b, void* y);

/// y = residual + gate * x; operands residual, gate, x, y.
struct GateRows {
  bool is_bf16 = false;
  bool is_gate_bf16 = false;
  GridRows<4> grid;
};
void launch_gate_residual(void* stream, const GateRows& rows, const void* residual, const void* gate, const void* x,
                          void* y);

}  // namespace headroom::cuda
