// Runs of 64 bytes and more use memcpy, which reaches memory bandwidth at that size. For tensors larger than the
// cache they use non-temporal stores, which memcpy uses only for single runs of many megabytes. Such runs are taken
// in the order of the source, but runs that are contiguous in the target are written together up to 4 KiB: heads of
// 128 in bf16 then reach 0.99 of a copy's rate, and 0.86 one by one. Shorter runs, of 1 to 32 bytes, are units of a
// tile with a size known at compile time, so that each is one load and one store. A tile spans the axis along which
// units are closest in the source, and the one along which they are closest in the target.
//
// A tile goes through two buffers: whole lines of the source are read into the first, units are permuted between the
// two, and whole lines of the target are written from the second. Moving units directly between two large tensors
// takes ten times as long if their addresses are a power of two apart. Loads then wait for stores whose addresses
// end in the same 12 bits, and lines compete for the same cache sets and are evicted before they are used up.
// (Panels of 256 x 256 tiles, for the sake of the TLB, gained nothing.)

// If units of two lines interleave, as in a pixel shuffle to twice the resolution, there are no tiles: registers of
// both lines are interleaved and written in succession.

#include "kernels/movement/strided_copy.hpp"

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "base/files/stream_copy.hpp"
#include "kernels/core/parallel.hpp"

namespace headroom {
namespace {

constexpr std::int64_t kTile = 32;
/// A tile with fewer units than this along an axis is copied straight, along the other axis.
constexpr std::int64_t kSmall = 8;
constexpr std::int64_t kRunBytes = 64;
constexpr std::int64_t kPieceBytes = 64 * 1024;
constexpr std::int64_t kJoinedBytes = 4096;
constexpr std::int64_t kPairs = 4096;  // of a piece of a line that is made of two

}  // namespace

StridedCopy::StridedCopy(std::size_t element_bytes, const Shape& extents, const Shape& from_strides,
                         const Shape& to_strides, bool past_cache)
    : element_bytes_(static_cast<std::int64_t>(element_bytes)), past_cache_(past_cache) {
  loop_ = longest_rows<2>(extents, {from_strides, to_strides}, kPieceBytes / element_bytes_);
  const std::int64_t run_bytes = loop_.inner.extent * element_bytes_;
  repeats_ = loop_.inner.extent > 1 && loop_.inner.strides[0] == 0;
  if (repeats_) return;
  const bool is_unit = run_bytes < kRunBytes && std::has_single_bit(static_cast<std::uint64_t>(run_bytes));
  if (is_unit && loop_.rank > 0 && loop_.rows > 0) {
    unit_bytes_ = run_bytes;
    plan_tiles();
  } else if (past_cache_ && loop_.piece == 0) {
    // In the order of the source: reads wait for memory and pages, writes past the cache do not, wherever they go.
    std::stable_sort(loop_.outer.begin(), loop_.outer.begin() + loop_.rank,
                     [](const auto& a, const auto& b) { return a.strides[0] > b.strides[0]; });
    join_runs(run_bytes);
  }
}

/// Makes steps along the axis that is closest in the target the innermost ones: up to kJoinedBytes, and a number that
/// divides it.
void StridedCopy::join_runs(std::int64_t run_bytes) {
  if (loop_.rank == 0 || loop_.rows == 0) return;
  auto* first = loop_.outer.data();
  auto* closest = std::min_element(first, first + loop_.rank,
                                   [](const auto& a, const auto& b) { return a.strides[1] < b.strides[1]; });
  std::int64_t steps = std::clamp<std::int64_t>(kJoinedBytes / run_bytes, 1, closest->extent);
  while (closest->extent % steps != 0) --steps;
  if (steps == 1 || closest == first + loop_.rank - 1) return;
  loop_.outer[loop_.rank++] = {.extent = steps, .strides = closest->strides};
  closest->extent /= steps;
  for (std::int64_t& stride : closest->strides) stride *= steps;
}

void StridedCopy::plan_tiles() {
  for (int axis = 0; axis < loop_.rank; ++axis) {
    for (std::int64_t& stride : loop_.outer[axis].strides) stride *= element_bytes_;
  }
  const auto take = [&](int axis) {
    const auto taken = loop_.outer[axis];
    std::copy(loop_.outer.begin() + axis + 1, loop_.outer.begin() + loop_.rank, loop_.outer.begin() + axis);
    --loop_.rank;
    return TileAxis{taken.extent, taken.strides[0], taken.strides[1]};
  };
  const auto put = [&](const TileAxis& axis, std::int64_t size) {
    loop_.outer[loop_.rank++] = {.extent = (axis.extent + size - 1) / size,
                                 .strides = {size * axis.from_stride, size * axis.to_stride}};
  };
  inner_ = take(loop_.rank - 1);
  if (loop_.rank > 0) {
    const auto* first = loop_.outer.data();
    const auto* closest = std::min_element(first, first + loop_.rank,
                                           [](const auto& a, const auto& b) { return a.strides[0] < b.strides[0]; });
    across_ = take(static_cast<int>(closest - first));
  }
  pairs_ = joins_two_lines();
  put(across_, pairs_ ? kPairs : kTile);
  if (!pairs_) put(inner_, kTile);
  detail::count_rows(loop_);
}

bool StridedCopy::joins_two_lines() const {
#if defined(__SSE2__)
  return unit_bytes_ <= 8 && inner_.extent == 2 && inner_.to_stride == unit_bytes_ &&
         across_.from_stride == unit_bytes_ && across_.to_stride == 2 * unit_bytes_;
#else
  return false;
#endif
}

namespace {

/// `count` copies of the element at `from`.
template <class T>
void fill(const std::byte* from, std::byte* to, std::int64_t count) {
  T value;
  std::memcpy(&value, from, sizeof value);
  for (std::int64_t i = 0; i < count; ++i)
    std::memcpy(to + i * static_cast<std::int64_t>(sizeof value), &value, sizeof value);
}

}  // namespace

void StridedCopy::repeat_elements(const std::byte* from, std::byte* to, std::int64_t begin, std::int64_t end) const {
  RowCursor cursor(loop_, begin);
  for (std::int64_t row = begin; row < end; ++row, cursor.next()) {
    const std::byte* source = from + cursor.offset(0) * element_bytes_;
    std::byte* target = to + cursor.offset(1) * element_bytes_;
    switch (element_bytes_) {
      case 1:
        fill<std::uint8_t>(source, target, cursor.length());
        break;
      case 2:
        fill<std::uint16_t>(source, target, cursor.length());
        break;
      case 4:
        fill<std::uint32_t>(source, target, cursor.length());
        break;
      default:
        fill<std::uint64_t>(source, target, cursor.length());
    }
  }
}

namespace {

/// Runs up to this size are prefetched whole, as many runs in advance as make kAheadBytes: the hardware prefetcher
/// cannot predict the next run.
constexpr std::int64_t kShortRun = 1024;
constexpr std::int64_t kAheadBytes = 2048;

void prefetch(const std::byte* from, std::int64_t bytes) {
#if defined(__SSE2__)
  for (std::int64_t i = 0; i < bytes; i += kCacheLine) _mm_prefetch(from + i, _MM_HINT_T0);
#else
  static_cast<void>(from), static_cast<void>(bytes);
#endif
}

}  // namespace

void StridedCopy::copy_runs(const std::byte* from, std::byte* to, std::int64_t begin, std::int64_t end) const {
  RowCursor cursor(loop_, begin);
  const std::int64_t rows_ahead = kAheadBytes / std::min(kShortRun, loop_.row_length() * element_bytes_);
  RowCursor ahead(loop_, std::min(begin + rows_ahead, end - 1));
  for (std::int64_t row = begin; row < end; ++row, cursor.next()) {
    std::byte* target = to + cursor.offset(1) * element_bytes_;
    const std::byte* source = from + cursor.offset(0) * element_bytes_;
    const std::int64_t bytes = cursor.length() * element_bytes_;
    if (past_cache_) {
      if (bytes <= kShortRun) {
        prefetch(from + ahead.offset(0) * element_bytes_, bytes);
        ahead.next();
      }
      stream_copy(target, source, static_cast<std::size_t>(bytes));
    } else {
      std::memcpy(target, source, static_cast<std::size_t>(bytes));
    }
  }
  if (past_cache_) finish_streaming();
}

namespace {

/// `count` units from `from` to `to`, each `*_stride` bytes after the one before.
template <std::size_t kUnitBytes>
void copy_line(const std::byte* from, std::int64_t from_stride, std::byte* to, std::int64_t to_stride,
               std::int64_t count) {
  constexpr std::int64_t kUnit = kUnitBytes;
  if (from_stride == kUnit && to_stride == kUnit) {
    std::memcpy(to, from, static_cast<std::size_t>(count) * kUnitBytes);
    return;
  }
  for (std::int64_t i = 0; i < count; ++i) std::memcpy(to + i * to_stride, from + i * from_stride, kUnitBytes);
}

}  // namespace

template <std::size_t kUnitBytes>
void StridedCopy::copy_tile(const std::byte* source, std::byte* target, std::int64_t columns, std::int64_t rows) const {
  constexpr std::int64_t kUnit = kUnitBytes;
  if (columns < kSmall) {
    for (std::int64_t column = 0; column < columns; ++column) {
      copy_line<kUnitBytes>(source + column * inner_.from_stride, across_.from_stride,
                            target + column * inner_.to_stride, across_.to_stride, rows);
    }
    return;
  }
  if (rows < kSmall) {
    for (std::int64_t row = 0; row < rows; ++row) {
      copy_line<kUnitBytes>(source + row * across_.from_stride, inner_.from_stride, target + row * across_.to_stride,
                            inner_.to_stride, columns);
    }
    return;
  }
  std::array<std::byte, kTile * kTile * kUnitBytes> as_read;
  std::array<std::byte, kTile * kTile * kUnitBytes> as_written;
  for (std::int64_t column = 0; column < columns; ++column) {
    copy_line<kUnitBytes>(source + column * inner_.from_stride, across_.from_stride,
                          as_read.data() + column * kTile * kUnit, kUnit, rows);
  }
  for (std::int64_t row = 0; row < rows; ++row) {
    copy_line<kUnitBytes>(as_read.data() + row * kUnit, kTile * kUnit, as_written.data() + row * kTile * kUnit, kUnit,
                          columns);
  }
  for (std::int64_t row = 0; row < rows; ++row) {
    copy_line<kUnitBytes>(as_written.data() + row * kTile * kUnit, kUnit, target + row * across_.to_stride,
                          inner_.to_stride, columns);
  }
}

template <std::size_t kUnitBytes>
void StridedCopy::copy_tiles(const std::byte* from, std::byte* to, std::int64_t begin, std::int64_t end) const {
  RowCursor cursor(loop_, begin);
  for (std::int64_t tile = begin; tile < end; ++tile, cursor.next()) {
    const std::int64_t columns = std::min(kTile, inner_.extent - cursor.index(loop_.rank - 1) * kTile);
    const std::int64_t rows = std::min(kTile, across_.extent - cursor.index(loop_.rank - 2) * kTile);
    copy_tile<kUnitBytes>(from + cursor.offset(0), to + cursor.offset(1), columns, rows);
  }
}

#if defined(__SSE2__)
namespace {

struct Interleaved {
  __m128i low, high;
};
/// The interleaved units of a and b: of their lower halves, and of the upper ones.
template <std::size_t kUnitBytes>
Interleaved interleaved(__m128i a, __m128i b) {
  if constexpr (kUnitBytes == 1) return {_mm_unpacklo_epi8(a, b), _mm_unpackhi_epi8(a, b)};
  if constexpr (kUnitBytes == 2) return {_mm_unpacklo_epi16(a, b), _mm_unpackhi_epi16(a, b)};
  if constexpr (kUnitBytes == 4) return {_mm_unpacklo_epi32(a, b), _mm_unpackhi_epi32(a, b)};
  return {_mm_unpacklo_epi64(a, b), _mm_unpackhi_epi64(a, b)};
}

template <bool kPastCache>
void store_register(std::byte* to, __m128i value) {
  if constexpr (kPastCache)
    _mm_stream_si128(reinterpret_cast<__m128i*>(to), value);
  else
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to), value);
}

/// `bytes` of each of two lines, a multiple of a cache line.
template <std::size_t kUnitBytes, bool kPastCache>
void join_lines(const std::byte* first, const std::byte* second, std::byte* to, std::int64_t bytes) {
  constexpr std::int64_t kRegister = sizeof(__m128i);
  for (std::int64_t i = 0; i < bytes; i += kCacheLine) {
    if constexpr (kPastCache) {
      prefetch(first + i + kAheadBytes, kCacheLine);
      prefetch(second + i + kAheadBytes, kCacheLine);
    }
    for (std::int64_t k = i; k < i + kCacheLine; k += kRegister) {
      const auto [low, high] = interleaved<kUnitBytes>(_mm_loadu_si128(reinterpret_cast<const __m128i*>(first + k)),
                                                       _mm_loadu_si128(reinterpret_cast<const __m128i*>(second + k)));
      store_register<kPastCache>(to + 2 * k, low);
      store_register<kPastCache>(to + 2 * k + kRegister, high);
    }
  }
}

}  // namespace
#endif

template <std::size_t kUnitBytes>
void StridedCopy::copy_pairs(const std::byte* from, std::byte* to, std::int64_t begin, std::int64_t end) const {
  RowCursor cursor(loop_, begin);
  for (std::int64_t row = begin; row < end; ++row, cursor.next()) {
    const std::int64_t units = std::min(kPairs, across_.extent - cursor.index(loop_.rank - 1) * kPairs);
    const std::byte* first = from + cursor.offset(0);
    const std::byte* second = first + inner_.from_stride;
    std::byte* target = to + cursor.offset(1);
    std::int64_t joined = 0;
#if defined(__SSE2__)
    const std::int64_t bytes = units * static_cast<std::int64_t>(kUnitBytes) / kCacheLine * kCacheLine;
    if (past_cache_ && reinterpret_cast<std::uintptr_t>(target) % sizeof(__m128i) == 0)
      join_lines<kUnitBytes, true>(first, second, target, bytes);
    else
      join_lines<kUnitBytes, false>(first, second, target, bytes);
    joined = bytes;
#endif
    const std::int64_t rest = units - joined / static_cast<std::int64_t>(kUnitBytes);
    copy_line<kUnitBytes>(first + joined, across_.from_stride, target + 2 * joined, across_.to_stride, rest);
    copy_line<kUnitBytes>(second + joined, across_.from_stride, target + 2 * joined + inner_.to_stride,
                          across_.to_stride, rest);
  }
  if (past_cache_) finish_streaming();
}

void StridedCopy::run(int threads, const void* from, void* to) const {
  const auto* source = static_cast<const std::byte*>(from);
  auto* target = static_cast<std::byte*>(to);
  const std::int64_t units = pairs_ ? 2 * std::min(kPairs, across_.extent) : kTile * kTile;
  const std::int64_t elements = unit_bytes_ == 0 ? loop_.row_length() : units;
  parallel_for(threads, loop_.rows, grain_of(elements), [&](std::int64_t begin, std::int64_t end, int) {
    if (repeats_) return repeat_elements(source, target, begin, end);
    if (pairs_) {
      switch (unit_bytes_) {
        case 1:
          return copy_pairs<1>(source, target, begin, end);
        case 2:
          return copy_pairs<2>(source, target, begin, end);
        case 4:
          return copy_pairs<4>(source, target, begin, end);
        default:
          return copy_pairs<8>(source, target, begin, end);
      }
    }
    switch (unit_bytes_) {
      case 0:
        return copy_runs(source, target, begin, end);
      case 1:
        return copy_tiles<1>(source, target, begin, end);
      case 2:
        return copy_tiles<2>(source, target, begin, end);
      case 4:
        return copy_tiles<4>(source, target, begin, end);
      case 8:
        return copy_tiles<8>(source, target, begin, end);
      case 16:
        return copy_tiles<16>(source, target, begin, end);
      default:
        return copy_tiles<32>(source, target, begin, end);
    }
  });
}

}  // namespace headroom
