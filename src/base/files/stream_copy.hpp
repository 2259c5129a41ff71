#pragma once

#include <cstddef>

namespace headroom {

/// Copies `bytes` with non-temporal stores wherever the target has whole cache lines: for targets that no cache holds,
/// where an ordinary store would first read the line that it overwrites. The two do not overlap. A plain memcpy on CPUs
/// without SSE2. The last of a thread's copies is followed by finish_streaming().
void stream_copy(std::byte* to, const std::byte* from, std::size_t bytes) noexcept;

/// Makes this thread's streamed stores visible before the stores that follow.
void finish_streaming() noexcept;

}  // namespace headroom
