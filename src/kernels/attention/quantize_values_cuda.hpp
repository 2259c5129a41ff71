#pragma once

#include <cstdint>

#include "base/tensors/dtype_code.hpp"

/// The interface of quantize_values_cuda between its host and device halves.
namespace headroom::cuda {

/// v[batch, heads, tokens, channels] as it lies, with channels next to each other.
struct ValueRows {
  DType dtype = DType::kBF16;  ///< bf16 or f16
  int batch = 0, heads = 0, tokens = 0, channels = 0;
  int padded = 0;  ///< tokens of the result
  std::int64_t batch_stride = 0, head_stride = 0, token_stride = 0;
  bool has_clusters = false;  ///< of blocks that write to each other's shared memory (Hopper)
};

/// quantize_values: dense q[batch, heads, channels, padded] and scale[batch, heads, channels].
void launch_quantize_values(void* stream, const ValueRows& rows, const void* v, std::uint8_t* q, float* scales);

}  // namespace headroom::cuda
