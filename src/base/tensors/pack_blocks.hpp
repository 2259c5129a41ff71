#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/tensors/block_format.hpp"

namespace headroom {

/// Whether numbers can be packed in the format: Q8_0, Q4_0, Q4_K and Q6_K.
[[nodiscard]] bool can_pack(const BlockFormat& format) noexcept;

/// What packing loses beyond the integers' own rounding.
struct PackingLoss {
  /// Elements other than 0 of blocks whose scale f16 does not hold to 2%: it is 0, or one of the smallest subnormals.
  std::int64_t below_scale = 0;
};

/// Packs rows of whole blocks. Q8_0 and Q4_0 are those of `gguf` (PyPI), bit for bit. The scales of Q4_K and Q6_K
/// minimize the squared error of each group over a few candidates, as ggml's do, which are others. Throws Error for a
/// number that is not finite, std::logic_error for other formats and sizes.
PackingLoss pack_blocks(const BlockFormat& format, std::span<const float> values, std::span<std::byte> blocks);

}  // namespace headroom
