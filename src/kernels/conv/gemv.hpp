#pragma once

#include <cstdint>

#include "base/tensors/dtype_code.hpp"
#include "ir/op_code.hpp"

/// GEMMs of up to four rows, which read little but the weight: gemv.cu.
namespace headroom::convolutions {

inline constexpr int kMostFewRows = 4;
/// Changes with the kernel: whether it was the fastest is kept on disk.
inline constexpr int kFewRowsRevision = 1;

/// y[rows, outputs] = activation(x[rows, depth] * weight[outputs, depth]^T + bias)
struct FewRows {
  DType dtype = DType::kBF16;  ///< of all but the bias: f32, bf16 or f16
  bool bias_is_f32 = false;    ///< else it is of that dtype too
  Activation activation = Activation::kNone;
  bool has_constant_weight = false;  ///< the same in all runs
  int rows = 1;                      ///< up to kMostFewRows
  int outputs = 0;
  int depth = 0;  ///< a multiple of the elements in 16 bytes
};

/// Submits it to a stream (cudaStream_t). Device addresses, all at multiples of 16 bytes; bias may be null.
void launch_few_rows(void* stream, const FewRows& form, const void* x, const void* weight, const void* bias, void* y);

}  // namespace headroom::convolutions
