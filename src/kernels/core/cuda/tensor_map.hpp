#pragma once

#include <array>
#include <cstdint>

#include "base/tensors/dtype_code.hpp"

namespace headroom::cuda {

/// How Hopper's copy engine (TMA) finds boxes of a tensor: a parameter of a kernel by value, `const __grid_constant__
/// TensorMap`. A CUtensorMap, without the headers that it needs.
struct TensorMap {
  alignas(64) std::array<std::uint64_t, 16> words;
};

/// A tensor of at most five axes, the innermost first, and the box of it that one copy brings to shared memory.
/// Elements of a box that lie outside the tensor are filled with zeros.
struct BoxedTensor {
  static constexpr int kMostAxes = 5;
  DType dtype = DType::kBF16;  ///< f32, bf16, f16 or one of 8 bits
  int rank = 0;
  std::array<std::int64_t, kMostAxes> extents{};  ///< in elements
  std::array<std::int64_t, kMostAxes> strides{};  ///< in elements; the innermost is 1, others are multiples of 16 bytes
  std::array<int, kMostAxes> box{};               ///< elements that arrive, at most 256 along an axis
  std::array<int, kMostAxes> steps = {1, 1, 1, 1, 1};  ///< element strides along each axis, at most 8
  /// Whether pieces of 16 bytes in rows of 128 are permuted by the row (the 128-byte swizzle), as wgmma reads them;
  /// the innermost box is 128 bytes at most then.
  bool is_swizzled = true;
};
/// For the tensor at `address`, a multiple of 16. Throws Error where the driver takes no such tensor.
[[nodiscard]] TensorMap make_tensor_map(const BoxedTensor& tensor, const void* address);

}  // namespace headroom::cuda
