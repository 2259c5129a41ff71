#include "backends/caching_allocator.hpp"

#include <algorithm>
#include <cstdint>
#include <tuple>

#include "base/error.hpp"
#include "base/tensors/divide_up.hpp"

namespace headroom {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;
constexpr std::size_t kSmallSegment = 2 * kMiB;
constexpr std::size_t kLargeSegment = 20 * kMiB;
/// Larger requests get a segment of their own size: sharing would tie up too much.
constexpr std::size_t kOwnSegmentFrom = 10 * kMiB;

constexpr std::size_t segment_bytes(std::size_t bytes, bool is_small) {
  if (is_small) return kSmallSegment;
  return bytes < kOwnSegmentFrom ? kLargeSegment : round_up(bytes, kSmallSegment);
}

/// The smallest remainder that is split off as a block; a smaller one stays attached.
constexpr std::size_t least_split(bool is_small) { return is_small ? CachingAllocator::kGranularity : kMiB; }

constexpr auto kBySizeThenPlace = [](const auto& a, const auto& b) {
  return std::tie(a.bytes, a.at) < std::tie(b.bytes, b.at);
};

}  // namespace

CachingAllocator::Block CachingAllocator::allocate(std::size_t bytes) {
  // A request that would wrap around when rounded fits no device; the backend reports it.
  const std::size_t rounded = bytes > SIZE_MAX / 2 ? bytes : round_up(std::max<std::size_t>(bytes, 1), kGranularity);
  const bool is_small = rounded <= kSmallLimit;
  Index index = take_best_fit(rounded, is_small);
  if (index == kNone) index = add_segment(rounded, is_small);
  if (piece(index).bytes - rounded >= least_split(is_small)) split(index, rounded);
  piece(index).is_free = false;
  used_ += piece(index).bytes;
  peak_used_ = std::max(peak_used_, used_);
  return {.at = piece(index).at, .bytes = piece(index).bytes, .id = index};
}

void CachingAllocator::free(const Block& block) {
  HR_CHECK(block.id >= 0 && static_cast<std::size_t>(block.id) < pieces_.size());
  Index index = block.id;
  HR_CHECK(!piece(index).is_free && piece(index).at == block.at);
  used_ -= piece(index).bytes;
  const Index next = piece(index).next;
  if (next != kNone && piece(next).is_free) {
    remove_free(next);
    absorb_next(index);
  }
  const Index previous = piece(index).previous;
  if (previous != kNone && piece(previous).is_free) {
    remove_free(previous);
    absorb_next(previous);
    index = previous;
  }
  insert_free(index);
}

void CachingAllocator::trim() {
  if (keeps_segments_) return;
  for (FreeList* list : {&small_free_, &large_free_}) {
    std::erase_if(*list, [&](const FreeEntry& entry) {
      const Piece& whole = piece(entry.piece);
      if (whole.previous != kNone || whole.next != kNone) return false;
      Buffer& segment = segments_[static_cast<std::size_t>(whole.segment)];
      reserved_ -= segment.bytes();
      segment = Buffer();
      return_record(entry.piece);
      return true;
    });
  }
}

CachingAllocator::Index CachingAllocator::take_record() {
  if (unused_records_ == kNone) {
    pieces_.emplace_back();
    return static_cast<Index>(pieces_.size() - 1);
  }
  const Index index = unused_records_;
  unused_records_ = piece(index).next;
  piece(index) = Piece();
  return index;
}

void CachingAllocator::return_record(Index index) {
  piece(index) = Piece();
  piece(index).is_free = true;  // so that freeing a stale block is caught
  piece(index).next = unused_records_;
  unused_records_ = index;
}

CachingAllocator::Index CachingAllocator::take_best_fit(std::size_t bytes, bool is_small) {
  FreeList& list = free_list(is_small);
  const auto fit = std::ranges::lower_bound(list, FreeEntry{bytes, {}, kNone}, kBySizeThenPlace);
  if (fit == list.end()) return kNone;
  const Index index = fit->piece;
  list.erase(fit);
  return index;
}

CachingAllocator::Index CachingAllocator::add_segment(std::size_t bytes, bool is_small) {
  const std::size_t size = bytes > SIZE_MAX / 2 ? bytes : segment_bytes(bytes, is_small);
  Buffer buffer;
  try {
    buffer = backend_.allocate(size, category_);
  } catch (const Error&) {
    trim();  // cached, unused memory may suffice
    buffer = backend_.allocate(size, category_);
  }
  auto place = std::ranges::find(segments_, DevicePointer(), [](const Buffer& segment) { return segment.at(); });
  if (place == segments_.end()) place = segments_.emplace(segments_.end());
  const Index index = take_record();
  piece(index) = {.at = buffer.at(),
                  .bytes = size,
                  .segment = static_cast<Index>(place - segments_.begin()),
                  .is_free = true,
                  .is_small = is_small};
  *place = std::move(buffer);
  reserved_ += size;
  return index;
}

void CachingAllocator::split(Index index, std::size_t bytes) {
  const Index rest = take_record();  // may move the records, so references come after
  Piece& head = piece(index);
  Piece& tail = piece(rest);
  tail = {.at = head.at + bytes,
          .bytes = head.bytes - bytes,
          .previous = index,
          .next = head.next,
          .segment = head.segment,
          .is_small = head.is_small};
  if (tail.next != kNone) piece(tail.next).previous = rest;
  head.bytes = bytes;
  head.next = rest;
  insert_free(rest);
}

void CachingAllocator::absorb_next(Index index) {
  Piece& head = piece(index);
  const Index absorbed = head.next;
  head.bytes += piece(absorbed).bytes;
  head.next = piece(absorbed).next;
  if (head.next != kNone) piece(head.next).previous = index;
  return_record(absorbed);
}

void CachingAllocator::insert_free(Index index) {
  piece(index).is_free = true;
  const FreeEntry entry{piece(index).bytes, piece(index).at, index};
  FreeList& list = free_list(piece(index).is_small);
  list.insert(std::ranges::upper_bound(list, entry, kBySizeThenPlace), entry);
}

void CachingAllocator::remove_free(Index index) {
  const FreeEntry entry{piece(index).bytes, piece(index).at, index};
  FreeList& list = free_list(piece(index).is_small);
  const auto found = std::ranges::lower_bound(list, entry, kBySizeThenPlace);
  HR_CHECK(found != list.end() && found->piece == index);
  list.erase(found);
}

}  // namespace headroom
