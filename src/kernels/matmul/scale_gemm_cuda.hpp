#pragma once

#include "base/tensors/dtype_code.hpp"
#include "ir/op_code.hpp"
#include "kernels/core/cuda/grid_rows.hpp"

/// The interface of scaled_linear_cuda between its host and device halves.
namespace headroom::cuda {

/// y = activation(sums * x_scale * w_scale + bias) + residual, where `sums` are a GEMM's results. Operands:
/// sums, x_scale (one per row), w_scale, bias (w_scale again if there is none), residual (dense, like sums)
/// and y, which may be the residual. sums and scales are f32.
struct ScaledGemm {
  Activation activation = Activation::kNone;
  bool has_bias = false;
  bool has_residual = false;
  DType dtype = DType::kF32;  ///< of y and residual
  DType bias = DType::kF32;   ///< that of y or f32
  GridRows<6> grid;
};
void launch_scale_gemm(void* stream, const ScaledGemm& form, const float* sums, const float* x_scale,
                       const float* w_scale, const void* bias, const void* residual, void* y);

}  // namespace headroom::cuda
