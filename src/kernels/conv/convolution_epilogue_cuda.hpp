#pragma once

#include "base/tensors/dtype_code.hpp"
#include "ir/op_code.hpp"
#include "kernels/core/cuda/grid_rows.hpp"

/// The epilogue of a GEMM or convolution whose library does not fuse it: y = activation(sums + bias + residual).
/// Sums are in f32, so that y is rounded once.
namespace headroom::cuda {

struct ConvolutionEpilogue {
  Activation activation = Activation::kNone;
  bool has_bias = false;
  bool has_residual = false;
  DType dtype = DType::kF32;  ///< of y and residual
  DType bias = DType::kF32;   ///< the same or f32
  GridRows<4> grid;           ///< bias, residual, sums, y
};
/// Absent operands are null. `sums` may be y if y is f32.
void launch_convolution_epilogue(void* stream, const ConvolutionEpilogue& epilogue, const float* sums, const void* bias,
                                 const void* residual, void* y);

}  // namespace headroom::cuda
