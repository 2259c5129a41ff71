#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "backends/backend.hpp"

namespace headroom {

/// Hands out device memory from segments that it keeps, the way eager frameworks do: a freed block is reused by later
/// requests instead of going back to the device. Requests are rounded to kGranularity; small ones (up to kSmallLimit)
/// share segments of their own, so that they do not break up large blocks. The smallest free block that fits is taken,
/// split where enough is left over, and joined with its free neighbours when freed. Nothing returns to the backend
/// before trim() or destruction. Once the block table and the segments have grown to what the work needs, no call
/// allocates anything.
///
/// For one stream and one thread: a block may be handed out again while work submitted earlier to that stream still
/// uses it.
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

  /// Uninitialized memory, aligned as the backend's own. Zero bytes give a block of kGranularity. When the device has
  /// no room for a new segment, free segments are given back (unless they are kept) before giving up with the backend's
  /// Error.
  [[nodiscard]] Block allocate(std::size_t bytes);
  /// Takes `block` back. Freeing a block twice throws std::logic_error.
  void free(const Block& block);
  /// Gives segments that are wholly free back to the backend, unless they are kept.
  void trim();
  /// From now on no segment is given back: recorded work uses addresses in them, free or not.
  void keep_segments() noexcept { keeps_segments_ = true; }

  /// Held from the backend, in blocks handed out, and the most that used_bytes() has been since reset_peak().
  [[nodiscard]] std::size_t reserved_bytes() const noexcept { return reserved_; }
  [[nodiscard]] std::size_t used_bytes() const noexcept { return used_; }
  [[nodiscard]] std::size_t peak_used_bytes() const noexcept { return peak_used_; }
  void reset_peak() noexcept { peak_used_ = used_; }

 private:
  using Index = std::int32_t;
  static constexpr Index kNone = -1;

  /// A stretch of a segment, free or handed out; the pieces of a segment are linked in the order in which they lie.
  struct Piece {
    DevicePointer at;
    std::size_t bytes = 0;
    Index previous = kNone;
    Index next = kNone;  ///< also links unused records
    Index segment = kNone;
    bool is_free = false;
    bool is_small = false;
  };
  /// What free lists are sorted by: best fit is the first entry that is large enough.
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
  std::vector<Buffer> segments_;  ///< an empty Buffer marks a place that can be used again
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
