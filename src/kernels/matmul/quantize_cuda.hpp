#pragma once

#include "base/tensors/dtype_code.hpp"
#include "kernels/core/cuda/grid_rows.hpp"

/// The interface of quantize_cuda between its host and device halves.
namespace headroom::cuda {

/// Operands x, q in f8e4m3, one scale for each row.
struct QuantizeRows {
  DType dtype = DType::kF32;  ///< of x
  GridRows<3> grid;
};
void launch_quantize(void* stream, const QuantizeRows& rows, const void* x, void* q, float* row_scales);

}  // namespace headroom::cuda
