#pragma once

#include <cstdint>

#include "base/tensors/dtype_code.hpp"

/// The interface of unpack_blocks_cuda between its host and device halves.
namespace headroom::cuda {

struct UnpackBlocks {
  std::uint32_t format = 0;  ///< its number in GGUF files
  DType to = DType::kBF16;   ///< f32, bf16, f16, or with scales f8e4m3
  std::int64_t rows = 0, columns = 0;
  std::int64_t row_stride = 0;  ///< of the result, in elements
};
/// `scales` are those of the rows; null without.
void launch_unpack_blocks(void* stream, const UnpackBlocks& work, const void* blocks, const float* scales, void* y);

}  // namespace headroom::cuda
