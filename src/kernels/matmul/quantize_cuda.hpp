#pragma once

#include "base/tensors/dtype_code.hpp"
#include "kernels/core/cuda/grid_rows.hpp"

/// The interface of quantize_cuda between its host and device halves.
namespace headroom::cuda {

/// Operands x, q, one scale for each row.
struct QuantizeRows {
  DType dtype = DType::kF32;  ///< of x
  DType to = DType::kF8E4M3;  ///< of q: or i8
  GridRows<3> grid;
};
void launch_quantize(void* stream, const QuantizeRows& rows, const void* x, void* q, float* row_scales);

}  // namespace headroom::cuda
