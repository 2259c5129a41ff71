#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/fused/row_walk.hpp"

namespace headroom {

/// Lanes of the widest vector unit.
inline constexpr std::int64_t kTapeLanes = 16;
inline constexpr std::size_t kMostTapeArguments = 5;

/// Where an instruction of a tape reads or writes. All but memory is f32, and the thread's own.
struct TapePlace {
  enum class Kind : std::uint8_t {
    kNone,
    kMemory,    ///< operand `index` of the walk: f32 or bf16, but for kConvert, kSpread and results of kStore
    kPlane,     ///< the columns of a block, until the next block
    kRow,       ///< whole rows of a chunk, until the next chunk
    kShared,    ///< one row that all rows of a run have in common
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
    kWeightedSum,      ///< x0 x2 + x1 x3, x2 and x3 of which are narrow or constants
    kActivationOfSum,  ///< `op`, as gelu, of x0 + x1
    kGated,            ///< `op` of x0, times x1
    kNormalize,        ///< (x0 - x3) x4 x1 + x2
    kExpBelow,         ///< exp(x0 - x1) where x0 <= x1; its sum goes to `reduced` if that is a place
    kSelect,           ///< x0 != 0 ? x1 : x2
    kRound,            ///< to `dtype` and back
    kRotate,           ///< columns 2i and 2i + 1 of x0 by x1 and x2, which have half the columns
    kScale,            ///< of a quantized row; as RowProgram has it, x1 the largest number
    kInverse,          ///< likewise
    kQuantize,         ///< likewise: x0 x1, 0 where x1 is 0
    kSum,              ///< to `reduced`, of x0,
    kSumProduct,       ///< of x0 x1,
    kSumSquares,       ///< of (x0 - x1)^2
    kMax,              ///< of x0; NaN where one is
    kMin,
    kPeak,
    kMaxOfNumbers,    ///< of x0; NaN are left out where there is a number
    kConvert,         ///< x0 in memory, of any dtype, to f32
    kStore,           ///< x0, f32, to memory of any dtype
    kStoreQuantized,  ///< kQuantize and kStore to i8 or f8e4m3 in one; x1 is narrow, of the row of x0
    kSpread,          ///< x0 in memory, an element for a row, to a narrow place
    kStoreNarrow,     ///< the other way
  };
  Do what = Do::kFormula;
  Op op = Op::kAdd;
  DType dtype = DType::kF32;
  bool is_coarse = false;  ///< good to a rounding to bf16 is enough
  std::array<TapePlace, kMostTapeArguments> x{};
  TapePlace y{};
  TapePlace reduced{};  ///< narrow
  /// Of a sum, with products in it or not, or a normalization, what else is done with it: `join` reduces it, where `reduced` is a place,
  /// and memory at `also` gets it. An activation may have its peak reduced.
  Do join = Do::kSum;
  TapePlace also{};
};

/// About how many operations on vectors it takes for each vector of columns, by which reading ahead is shared out.
[[nodiscard]] int operations_of(const TapeInstruction& instruction);

/// A row program as a CPU runs it: chunks of rows that fit the first-level cache, block by block of their columns. Registers are
/// planes, stretches of f32 in that cache, and an instruction is a loop over one, so that choosing it costs nothing beside
/// what it does.
///
/// What a phase computes ends in reductions; what later phases read again is kept as whole rows of f32, unless it is
/// in memory. What is the same for all rows along the innermost outer axis is computed once for these.
struct RowTape {
  struct Phase {
    std::vector<TapeInstruction> narrow;  ///< with one element for each row; first
    std::vector<TapeInstruction> wide;    ///< for each block of columns
  };

  RowWalk walk;                  ///< with rows cut into pieces where nothing belongs together along them
  std::vector<DType> dtypes;     ///< of its operands
  std::size_t loads = 0;         ///< operands that are read; results are behind them
  std::int64_t columns = 1;      ///< of a row or piece; the last piece of a row may have fewer:
  std::int64_t row_columns = 1;  ///< of a whole row
  bool is_cut = false;           ///< the innermost outer axis counts pieces
  std::int64_t block = 1;        ///< columns that are taken together
  std::int64_t rows = 1;         ///< of a chunk, at most

  std::vector<TapeInstruction> shared;  ///< for each run of rows
  std::vector<Phase> phases;
  int planes = 0, kept_rows = 0, shared_rows = 0, narrow = 0;  ///< places of each kind
  std::vector<float> constants;                                ///< kTapeLanes of each number
  std::vector<int> streams;                                    ///< operands that are read row after row
  std::vector<int> last_read;                                  ///< for each load, the last phase that reads it
  int first_write = 0;  ///< the phase that writes result 0, behind all that it reads

  /// Elements from a row of a plane, or of a whole row, to the next: a line more than they take, so that planes do not meet in the
  /// same sets of the cache.
  [[nodiscard]] std::int64_t block_pitch() const { return (block + 63) / 64 * 64 + kTapeLanes; }
  [[nodiscard]] std::int64_t row_pitch() const { return (columns + 63) / 64 * 64 + kTapeLanes; }
  /// Elements of f32 that a thread needs.
  [[nodiscard]] std::int64_t scratch_elements() const;
};

[[nodiscard]] RowTape tape_of(const BoundProgram& bound);

}  // namespace headroom
