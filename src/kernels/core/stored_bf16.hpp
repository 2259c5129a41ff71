#pragma once

#include <bit>
#include <cstdint>

#include "base/tensors/dtype.hpp"

namespace headroom {

/// A bf16 in memory, for plain loops over elements of either dtype of floats.
enum class StoredBf16 : std::uint16_t {};

[[nodiscard]] inline float load(float value) { return value; }
[[nodiscard]] inline float load(StoredBf16 value) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(value) << 16U);
}
inline void store(float* to, float value) { *to = value; }
inline void store(StoredBf16* to, float value) { *to = static_cast<StoredBf16>(float_to_bf16(value)); }

}  // namespace headroom
