#pragma once

#include <cstdint>

#include "base/dtype_code.hpp"
#include "kernels/cuda/grid_rows.hpp"

/// Between the two halves of norm_cuda and of softmax_cuda: what is prepared and what is launched.
namespace headroom::cuda {

enum class Norm : std::uint8_t { kLayer, kRms, kModulate, kModulateQuantize };

/// Rows of the operands x, weight or scale, shift, y, one scale for each row where y is quantized, and of a gated norm
/// residual, gate and sum; those that an op lacks have strides of 0. Rows are what is normalized.
struct NormRows {
  Norm form = Norm::kLayer;
  DType dtype = DType::kF32;  ///< of x, and of y where it is not quantized
  DType side = DType::kF32;   ///< of weight, scale, shift and gate: that of x or f32
  float eps = 0;
  GridRows<8> grid;
};
/// Null where an op has no such operand.
struct NormOperands {
  const void* x;
  const void* scale;
  const void* shift;
  void* y;
  float* row_scales;     ///< of kModulateQuantize, whose y is f8e4m3
  const void* residual;  ///< of gate_residual_norm and gate_residual_norm_quantize, as the next two
  const void* gate;
  void* sum;  ///< may be residual or x
};
void launch_norm(void* stream, const NormRows& rows, const NormOperands& operands);

/// Operands x, y.
struct SoftmaxRows {
  DType dtype = DType::kF32;
  GridRows<2> grid;
};
void launch_softmax(void* stream, const SoftmaxRows& rows, const void* x, void* y);

}  // namespace headroom::cuda
