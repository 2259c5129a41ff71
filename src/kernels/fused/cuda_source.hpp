#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "kernels/fused/row_walk.hpp"
#include "tune/nearest_size.hpp"

namespace headroom::cuda {

/// Within which what is read again comes from the second-level cache, of 40 to 60 MB (bound_program). Masked softmax of 24 x 1024 x 1024 in f32, 12
/// MB from one use of the mask to the next, takes 50.2 us with rows as they lie, 52.7 with those of a row of the mask together (H200).
inline constexpr std::int64_t kCacheBytes = std::int64_t{16} << 20;

/// How a generated kernel goes over its rows: a thread takes packs of `width` neighbouring columns, `packs` of them in a
/// row, `threads` apart. With up to 32 threads a row belongs to a warp or a part of one, else to a block.
struct RowShape {
  int width = 1;
  int threads = 32;       ///< of a row: a power of two up to 32, or whole warps
  int packs = 1;          ///< of a thread
  int rows_of_block = 1;  ///< rows that share a block
  int rows_of_thread =
      1;  ///< neighbours along the innermost outer axis, read together and worked on one by one; up to 32 threads
  /// So many blocks stay, each for rows that follow one another, and keep the rows that are `ahead` of each thread's under way to shared
  /// memory while they work on one; 0 for a block for each row.
  int staying = 0;
  int ahead = 1;
  int blocks = 0;  ///< that a multiprocessor must have registers for; 0 leaves it to the compiler
  /// A row is too long for registers: what a phase needs is read, and computed, again.
  bool is_reread = false;
  friend bool operator==(const RowShape&, const RowShape&) = default;
};

/// How many columns a pack may have: what the rows of every operand are multiples of, up to 8, or 4 where all are of 4 bytes.
[[nodiscard]] int widest_pack(const BoundProgram& bound);

/// The shapes worth trying, the best guess first.
[[nodiscard]] std::vector<RowShape> row_shapes(const BoundProgram& bound, int multiprocessors);

/// What is the same in programs that go over other numbers of rows, or where nothing belongs together along a row, of elements: that, and
/// how many of them.
[[nodiscard]] tune::SizeKey size_key_of(const BoundProgram& bound);

/// The source of a kernel, complete for a compiler without headers, and how it is launched: `kernel` takes the address
/// of every load's operand, in the order of program.loads, and behind them of every result.
struct KernelSource {
  std::string text;
  std::int64_t blocks = 1;
  unsigned threads = 32;
};
[[nodiscard]] KernelSource cuda_source_of(const BoundProgram& bound, const RowShape& shape);

}  // namespace headroom::cuda
