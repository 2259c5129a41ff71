#pragma once

#include <cstdint>

#include "base/tensors/dtype_code.hpp"
#include "kernels/core/cuda/grid_rows.hpp"

/// Between the two halves of norm_cuda and of softmax_cuda, which prepare and launch.
namespace headroom::cuda {

enum class Norm : std::uint8_t { kLayer, kRms, kModulate };

/// Rows of the operands x, weight or scale, shift and y; those that an op lacks have strides of 0. Each row is
/// normalized.
struct NormRows {
  Norm form = Norm::kLayer;
  DType dtype = DType::kF32;  ///< of x and y
  DType side = DType::kF32;   ///< of weight, scale and shift: that of x or f32
  float eps = 0;
  GridRows<4> grid;
};
/// Null where an op has no such operand.
struct NormOperands {
  const void* x;
  const void* scale;
  const void* shift;
  void* y;
};
void launch_norm(void* stream, const NormRows& rows, const NormOperands& operands);

/// Operands x, y.
struct SoftmaxRows {
  DType dtype = DType::kF32;
  GridRows<2> grid;
};
void launch_softmax(void* stream, const SoftmaxRows& rows, const void* x, void* y);

}  // namespace headroom::cuda
