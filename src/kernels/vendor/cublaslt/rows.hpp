#pragma once

#include "kernels/matmul/linear_rows.hpp"
#include "kernels/vendor/cublaslt/gemm.hpp"

namespace headroom::cublaslt {

/// The GEMMs of the rows of a linear with its dense weight[n, k]: without scales, bias or epilogue.
[[nodiscard]] inline GemmSpec spec_of_rows(const RowPlan& rows, DType dtype, DType c_dtype, const Shape& weight) {
  return {.dtype = dtype,
          .c_dtype = c_dtype,
          .m = rows.rows.extent,
          .n = weight[0],
          .k = weight[1],
          .transpose_b = true,
          .a_row = rows.rows.x_stride,
          .b_row = weight[1],
          .c_row = rows.rows.y_stride};
}

/// Runs them one after the other. `first` are the operands of the whole linear. Its scales of x and residual are
/// dense, as x is if there are scales.
inline void run_rows(const Gemm& gemm, const GemmSpec& spec, const RowPlan& rows, void* stream,
                     const GemmOperands& first, void* workspace) {
  for (std::int64_t i = 0; i < rows.count(); ++i) {
    const RowPlan::Offsets offsets = rows.offsets(i);
    GemmOperands operands = first;
    operands.a = static_cast<const std::byte*>(first.a) + offsets.x * static_cast<std::int64_t>(size_of(spec.dtype));
    operands.c = static_cast<std::byte*>(first.c) + offsets.y * static_cast<std::int64_t>(size_of(spec.c_dtype));
    if (spec.has_scales) operands.a_scale = first.a_scale + offsets.x / spec.k;
    if (spec.has_residual)
      operands.residual = static_cast<const std::byte*>(first.residual) +
                          offsets.x / spec.k * spec.n * static_cast<std::int64_t>(size_of(spec.c_dtype));
    gemm.run(stream, operands, workspace);
  }
}

}  // namespace headroom::cublaslt
