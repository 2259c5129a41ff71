#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "backends/backend.hpp"

namespace headroom {

/// A caching allocator like those of eager frameworks: it takes segments of device memory, and reuses freed blocks
/// for later requests instead of returning them to the device. Requests are rounded to kGranularity. Small requests
/// (up to kSmallLimit) share segments of their own, so that they do not fragment large blocks. The allocator takes
/// the smallest free block that fits, splits it if enough is left over, and merges a freed block with its free
/// neighbours. Memory returns to the backend only at trim() or destruction. Once the block table and the segments
/// have grown to the size that the work needs, no call allocates anything.
///
/// For one stream and one thread: a block may be reused while work submitted earlier to that stream still uses it.
class CachingAllocator {
 public:
  static constexpr std::size_t kGranularity = 512;
  static constexpr std::size_t kSmallLimit = std::size_t{1} << 20;

  /// Memory handed out; valid until freed. `bytes` is what was asked for, rounded up.
  struct Block {
    DevicePointer at;
    std::size_t bytes = 0;
    std::int32_t id = -1;
  };

  /// Segments are booked under `category`; `backend` must outlive the allocator.
  CachingAllocator(Backend& backend, MemoryCategory category) : backend_(backend), category_(category) {}
  CachingAllocator(const CachingAllocator&) = delete;
  CachingAllocator& operator=(const CachingAllocator&) = delete;

  /// Uninitialized memory, aligned like the backend's own. Zero bytes give a block of kGranularity. If the device
  /// has no room for a new segment, free segments are returned first (unless they are kept); if that does not help,
  /// the backend's Error is thrown.
  [[nodiscard]] Block allocate(std::size_t bytes);
  /// Takes `block` back. Freeing a block twice throws std::logic_error.
  void free(const Block& block);
  /// Returns entirely free segments to the backend, unless they are kept.
  void trim();
  /// From now on no segment is returned: recorded work uses addresses in them, free or not.
  void keep_segments() noexcept { keeps_segments_ = true; }

  /// Bytes taken from the backend, bytes in allocated blocks, and the maximum of used_bytes() since reset_peak().
  [[nodiscard]] std::size_t reserved_bytes() const noexcept { return reserved_; }
  [[nodiscard]] std::size_t used_bytes() const noexcept { return used_; }
  [[nodiscard]] std::size_t peak_used_bytes() const noexcept { return peak_used_; }
  void reset_peak() noexcept { peak_used_ = used_; }

 private:
  using Index = std::int32_t;
  static constexpr Index kNone = -1;

  /// A contiguous part of a segment, free or allocated; the pieces of a segment are linked in address order.
  struct Piece {
    DevicePointer at;
    std::size_t bytes = 0;
    Index previous = kNone;
    Index next = kNone;  ///< also links unused records
    Index segment = kNone;
    bool is_free = false;
    bool is_small = false;
  };
  /// An entry of a free list, sorted by size and address: the best fit is the first entry that is large enough.
  struct FreeEntry {
    std::size_t bytes;
    DevicePointer at;
    Index piece;
  };
  using FreeList = std::vector<FreeEntry>;

  [[nodiscard]] Piece& piece(Index index) { return pieces_[static_cast<std::size_t>(index)]; }
  [[nodiscard]] FreeList& free_list(bool is_small) { return is_small ? small_free_ : large_free_; }
  [[nodiscard]] Index take_record();
  void return_record(Index index);
  [[nodiscard]] Index take_best_fit(std::size_t bytes, bool is_small);
  [[nodiscard]] Index add_segment(std::size_t bytes, bool is_small);
  void split(Index index, std::size_t bytes);
  void absorb_next(Index index);
  void insert_free(Index index);
  void remove_free(Index index);

  Backend& backend_;
  MemoryCategory category_;
  std::vector<Buffer> segments_;  ///< an empty Buffer marks a reusable index
  std::vector<Piece> pieces_;
  Index unused_records_ = kNone;
  FreeList small_free_;
  FreeList large_free_;
  std::size_t reserved_ = 0;
  std::size_t used_ = 0;
  std::size_t peak_used_ = 0;
  bool keeps_segments_ = false;
};

}  // namespace headroom
