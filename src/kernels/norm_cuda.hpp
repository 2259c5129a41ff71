#pragma once

#include <cstdint>

#include "base/dtype_code.hpp"
#include "kernels/cuda/grid_rows.hpp"

/// Between the two halves of norm_cuda and of softmax_cuda: what is prepared and what is launched.
namespace headroom::cuda {

enum class Norm : std::uint8_t { kLayer, kRms, kModulate, kModulateQuantize };

/// Operands x, weight or scale (x again for layer_norm), shift (likewise), y, and one scale for each row where y is
/// quantized; rows are what is normalized.
struct NormRows {
  Norm form = Norm::kLayer;
  DType dtype = DType::kF32;  ///< of x, and of y where it is not quantized
  DType side = DType::kF32;     ///< of weight, scale and shift: that of x or f32
  float eps = 0;
  GridRows<5> grid;
};
/// `row_scales` is for kModulateQuantize, whose y is f8e4m3.
void launch_norm(void* stream, const NormRows& rows, const void* x, const void* scale, const void* shift, void* y,
                 float* row_scales = nullptr);

/// Rows of gate_residual_norm and gate_residual_norm_quantize: `norm` as above, of kModulate or kModulateQuantize,
/// where x is what is gated; beside it residual, gate and sum.
struct GatedNormRows {
  NormRows norm;
  GridRows<3> gated;
};
struct GatedNormOperands {
  const void* residual;
  const void* gate;
  const void* x;
  const void* scale;
  const void* shift;
  void* sum;  ///< may be residual or x
  void* y;
  float* row_scales;  ///< of kModulateQuantize, whose y is f8e4m3
};
void launch_gated_norm(void* stream, const GatedNormRows& rows, const GatedNormOperands& operands);

/// softmax(scale * x); operands x, y.
struct SoftmaxRows {
  DType dtype = DType::kF32;
  float scale = 1;
  GridRows<2> grid;
};
void launch_softmax(void* stream, const SoftmaxRows& rows, const void* x, void* y);

}  // namespace headroom::cuda
