#pragma once

#include <cstddef>
#include <cstdint>

#include "base/tensors/shape.hpp"
#include "kernels/core/row_loop.hpp"

namespace headroom {

/// Copies a tensor from any strides, 0 along repeated axes, to any positive ones. It uses the largest pieces that
/// the strides allow: axes are merged, contiguous runs are copied whole, transposed planes in tiles. Shapes and
/// strides are fixed at construction; a value, cheap to copy.
class StridedCopy {
 public:
  /// Strides are in elements of `element_bytes`; both belong to a tensor of shape `extents`. With `past_cache`, long
  /// runs use non-temporal stores.
  StridedCopy(std::size_t element_bytes, const Shape& extents, const Shape& from_strides, const Shape& to_strides,
              bool past_cache = false);

  /// Copies on up to `threads` threads; `from` and `to` must not overlap.
  void run(int threads, const void* from, void* to) const;

 private:
  /// One axis of a tile: its number of units, and their distance in bytes.
  struct TileAxis {
    std::int64_t extent = 1;
    std::int64_t from_stride = 0;
    std::int64_t to_stride = 0;
  };

  void join_runs(std::int64_t run_bytes);
  void plan_tiles();
  [[nodiscard]] bool joins_two_lines() const;
  void repeat_elements(const std::byte* from, std::byte* to, std::int64_t begin, std::int64_t end) const;
  void copy_runs(const std::byte* from, std::byte* to, std::int64_t begin, std::int64_t end) const;
  template <std::size_t kUnitBytes>
  void copy_tiles(const std::byte* from, std::byte* to, std::int64_t begin, std::int64_t end) const;
  template <std::size_t kUnitBytes>
  void copy_pairs(const std::byte* from, std::byte* to, std::int64_t begin, std::int64_t end) const;
  template <std::size_t kUnitBytes>
  void copy_tile(const std::byte* source, std::byte* target, std::int64_t columns, std::int64_t rows) const;

  RowLoop<2> loop_;  ///< operands: from, to; strides in elements for runs, in bytes for tiles
  std::int64_t element_bytes_;
  bool past_cache_;
  bool repeats_ = false;         ///< runs are one repeated element
  bool pairs_ = false;           ///< units of two source lines interleave in one target line; no tiles are made
  std::int64_t unit_bytes_ = 0;  ///< unit of a tile: a power of two up to 32; 0 if whole runs are copied
  TileAxis inner_;               ///< units are closest in `to` along this axis
  TileAxis across_;              ///< units are closest in `from` along this axis
};

}  // namespace headroom
