#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/fused/row_walk.hpp"

namespace headroom {

/// Lanes of the widest supported vectors.
inline constexpr std::int64_t kTapeLanes = 16;
inline constexpr std::size_t kMostTapeArguments = 5;

/// The place that an instruction of a tape reads or writes. All places but memory are f32, and private to the
/// thread.
struct TapePlace {
  enum class Kind : std::uint8_t {
    kNone,
    kMemory,    ///< operand `index` of the walk: f32 or bf16, except kConvert, kSpread and results of kStore
    kPlane,     ///< the columns of a block, until the next block
    kRow,       ///< whole rows of a chunk, until the next chunk
    kShared,    ///< one row that all rows of a run share
    kNarrow,    ///< an element of each row of a chunk, repeated over a vector
    kConstant,  ///< a number, likewise
  };
  Kind kind = Kind::kNone;
  int index = -1;
  friend bool operator==(const TapePlace&, const TapePlace&) = default;
};

/// One loop over the columns of a block: y = f(x...), rows by rows.
struct TapeInstruction {
  enum class Do : std::uint8_t {
    kFormula,          ///< of `op` in elementwise.def
    kShiftedScale,     ///< (x0 - x1) x2
    kProduct,          ///< x0 x1 x2
    kSumOfProducts,    ///< x0 x1 + x2 x3
    kWeightedSum,      ///< x0 x2 + x1 x3; x2 and x3 are per-row values or constants
    kActivationOfSum,  ///< `op`, as gelu, of x0 + x1
    kGated,            ///< `op` of x0, times x1
    kNormalize,        ///< (x0 - x3) x4 x1 + x2
    kExpBelow,         ///< exp(x0 - x1) for x0 <= x1; its sum goes to `reduced` if that is a place
    kSelect,           ///< x0 != 0 ? x1 : x2
    kRound,            ///< to `dtype` and back
    kRotate,           ///< columns 2i and 2i + 1 of x0 by x1 and x2, which have half the columns
    kScale,            ///< of a quantized row, as in RowProgram; x1 is the largest number
    kInverse,          ///< likewise
    kQuantize,         ///< likewise: x0 x1, 0 where x1 is 0
    kSum,              ///< to `reduced`, of x0,
    kSumProduct,       ///< of x0 x1,
    kSumSquares,       ///< of (x0 - x1)^2
    kMax,              ///< of x0; NaN if any is
    kMin,
    kPeak,
    kMaxOfNumbers,    ///< of x0; NaN are ignored if there is a number
    kConvert,         ///< x0 in memory, of any dtype, to f32
    kStore,           ///< x0, f32, to memory of any dtype
    kStoreQuantized,  ///< kQuantize and kStore to i8 or f8e4m3 in one; x1 is per row, of the row of x0
    kSpread,          ///< x0 in memory, one element per row, to a per-row place
    kStoreNarrow,     ///< the reverse of kSpread
  };
  Do what = Do::kFormula;
  Op op = Op::kAdd;
  DType dtype = DType::kF32;
  bool is_coarse = false;  ///< bf16 accuracy is enough
  std::array<TapePlace, kMostTapeArguments> x{};
  TapePlace y{};
  TapePlace reduced{};  ///< narrow
  /// For a sum, with or without multiplications, or a normalization: `join` reduces the result to `reduced`, if that
  /// is a place, and the result is also stored at `also`. An activation may have its peak reduced.
  Do join = Do::kSum;
  TapePlace also{};
};

/// The approximate number of vector operations per vector of columns, in proportion to which prefetches are
/// distributed.
[[nodiscard]] int operations_of(const TapeInstruction& instruction);

/// A row program compiled for a CPU. It runs chunks of rows that fit the first-level cache, one block of columns at
/// a time. Registers are planes, ranges of f32 in that cache, and an instruction is a loop over one. The cost of
/// dispatch is thus negligible.
///
/// A phase ends in reductions. Values that later phases read again are kept as whole rows of f32, unless they are in
/// memory. Values common to all rows along the innermost outer axis are computed once for these.
struct RowTape {
  struct Phase {
    std::vector<TapeInstruction> narrow;  ///< with one element per row; run first
    std::vector<TapeInstruction> wide;    ///< for each block of columns
  };

  RowWalk walk;                  ///< with rows cut into pieces, unless the program needs rows
  std::vector<DType> dtypes;     ///< of its operands
  std::size_t loads = 0;         ///< operands that are read; results follow
  std::int64_t columns = 1;      ///< of a row or piece; the last piece of a row may have fewer:
  std::int64_t row_columns = 1;  ///< of a whole row
  bool is_cut = false;           ///< the innermost outer axis counts pieces
  std::int64_t block = 1;        ///< columns processed together
  std::int64_t rows = 1;         ///< of a chunk, at most

  std::vector<TapeInstruction> shared;  ///< for each run of rows
  std::vector<Phase> phases;
  int planes = 0, kept_rows = 0, shared_rows = 0, narrow = 0;  ///< places of each kind
  std::vector<float> constants;                                ///< kTapeLanes of each number
  std::vector<int> streams;                                    ///< operands that are read sequentially, row by row
  std::vector<int> last_read;                                  ///< for each load, the last phase that reads it
  int first_write = 0;                                         ///< the phase that writes result 0, after all its reads

  /// Elements from one row of a plane, or one whole row, to the next: padded by one cache line, so that planes do
  /// not map to the same cache sets.
  [[nodiscard]] std::int64_t block_pitch() const { return (block + 63) / 64 * 64 + kTapeLanes; }
  [[nodiscard]] std::int64_t row_pitch() const { return (columns + 63) / 64 * 64 + kTapeLanes; }
  /// Elements of f32 that a thread needs.
  [[nodiscard]] std::int64_t scratch_elements() const;
};

[[nodiscard]] RowTape tape_of(const BoundProgram& bound);

}  // namespace headroom
