#include "base/files/stream_copy.hpp"

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace headroom {

void stream_copy(std::byte* to, const std::byte* from, std::size_t bytes) noexcept {
#if defined(__SSE2__)
  constexpr std::size_t kLine = 64;
  constexpr std::size_t kPart = sizeof(__m128i);
  // prefetch distance in bytes: the CPU's own prefetch starts late and stops at the page
  constexpr std::size_t kAhead = 1024;
  constexpr std::size_t kShortRun = 1024;  // up to this length the next run cannot be predicted
  const std::size_t head =
      std::min(bytes, static_cast<std::size_t>(-reinterpret_cast<std::uintptr_t>(to) & (kLine - 1)));
  std::memcpy(to, from, head);
  std::size_t i = head;
  for (; i + kLine <= bytes; i += kLine) {
    if (bytes > kShortRun) _mm_prefetch(from + i + kAhead, _MM_HINT_T0);
    for (std::size_t part = i; part < i + kLine; part += kPart)
      _mm_stream_si128(reinterpret_cast<__m128i*>(to + part),
                       _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + part)));
  }
  std::memcpy(to + i, from + i, bytes - i);
#else
  std::memcpy(to, from, bytes);
#endif
}

void finish_streaming() noexcept {
#if defined(__SSE2__)
  _mm_sfence();
#endif
}

}  // namespace headroom
