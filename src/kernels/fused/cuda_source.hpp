#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "kernels/fused/row_walk.hpp"
#include "tune/nearest_size.hpp"

namespace headroom::cuda {

/// The reuse distance in bytes within which data is assumed to be in the second-level cache, of 40 to 60 MB
/// (bound_program). Masked softmax of 24 x 1024 x 1024 in f32 reuses the mask after 12 MB. It takes 50.2 us with
/// rows in memory order, 52.7 with rows grouped by their row of the mask (H200).
inline constexpr std::int64_t kCacheBytes = std::int64_t{16} << 20;

/// The thread layout of a generated kernel: a thread takes packs of `width` neighbouring columns, `packs` of them in
/// a row, `threads` apart. With up to 32 threads a row belongs to a warp or a part of one, else to a block.
struct RowShape {
  int width = 1;
  int threads = 32;       ///< of a row: a power of two up to 32, or whole warps
  int packs = 1;          ///< of a thread
  int rows_of_block = 1;  ///< rows that share a block
  int rows_of_thread =
      1;  ///< neighbours along the innermost outer axis, loaded together, then processed singly; up to 32 threads
  /// The number of persistent blocks, or 0 for one block per row. Each takes successive rows, and prefetches `ahead`
  /// rows of each thread to shared memory while it works on one.
  int staying = 0;
  int ahead = 1;
  int blocks = 0;  ///< resident blocks per multiprocessor; limits registers; 0 leaves it to the compiler
  /// A row is too long for registers: each phase reads and recomputes the values that it needs.
  bool is_reread = false;
  friend bool operator==(const RowShape&, const RowShape&) = default;
};

/// The largest number of columns of a pack: a divisor of the rows of every operand, up to 8, or 4 if all have 4
/// bytes.
[[nodiscard]] int widest_pack(const BoundProgram& bound);

/// The shapes worth trying, the best guess first.
[[nodiscard]] std::vector<RowShape> row_shapes(const BoundProgram& bound, int multiprocessors);

/// The size key of a program: the family is everything except the number of rows or, for programs without
/// needs_rows, of elements; the size is that number.
[[nodiscard]] tune::SizeKey size_key_of(const BoundProgram& bound);

/// The source of a kernel, complete for a compiler without headers, and its launch parameters: `kernel` takes the
/// address of every load's operand, in the order of program.loads, then of every result.
struct KernelSource {
  std::string text;
  std::int64_t blocks = 1;
  unsigned threads = 32;
};
[[nodiscard]] KernelSource cuda_source_of(const BoundProgram& bound, const RowShape& shape);

}  // namespace headroom::cuda
