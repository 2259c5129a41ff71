#pragma once

#include <cstddef>

namespace headroom {

/// Copies `bytes` with non-temporal stores to whole cache lines of the target: for targets that are not cached,
/// where an ordinary store would first read the line. The ranges must not overlap. On CPUs without SSE2 it is a
/// plain memcpy. After its last copy a thread must call finish_streaming().
void stream_copy(std::byte* to, const std::byte* from, std::size_t bytes) noexcept;

/// Makes this thread's streamed stores visible before the stores that follow.
void finish_streaming() noexcept;

}  // namespace headroom
