#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/tensors/block_format.hpp"
#include "base/tensors/random.hpp"

namespace headroom {

/// Blocks [first, first + the number in `blocks`) of a stream: random integers and group scales, under block scales by
/// which the mean of all elements is about 0 and their standard deviation that of the stream. The format is one of
/// blocks that are read. Thread-safe; a block depends on its index alone.
void draw_blocks(const BlockFormat& format, const NormalStream& stream, std::uint64_t first,
                 std::span<std::byte> blocks);

}  // namespace headroom
