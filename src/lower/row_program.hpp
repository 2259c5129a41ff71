#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "base/tensors/shape.hpp"
#include "ir/graph.hpp"

namespace headroom {

/// Where a row program finds an operand's element for a place of its space.
struct RowAccess {
  int operand = 0;        ///< number of the input
  std::vector<int> axes;  ///< for each axis of the space the operand's, or -1 where one element serves all of it
  /// For each axis of the space how many neighbouring places read one element: place i reads element i / repeats. Empty
  /// where each place has its own.
  std::vector<int> repeats;
  /// Of a gathered element the load, by its number, of its place among `places`: one of i32 or i64 that no step reads. Then
  /// the operand has one axis, and `axes` has none of it.
  int index = -1;
  std::int64_t places = 0;

  /// Whether each place of the space reads the operand at that place, but for axes that it lacks.
  [[nodiscard]] bool is_plain() const { return repeats.empty() && index < 0; }
  friend bool operator==(const RowAccess&, const RowAccess&) = default;
};

/// What a kernel does for the body of a fused op: a straight line of steps, the same for every row of a space
/// [rows..., columns], in f32. Norms, softmax, means and quantizers are taken apart into what is reduced over a row and
/// what is done with each element, so that a generator knows loads, formulas and four reductions, and nothing else.
///
/// A step is wide where it has a value for each column, and else has one for the row. Truth is 1, falsehood 0.
struct RowProgram {
  enum class Do : std::uint8_t {
    kLoad,      ///< an element of loads[access], as f32
    kConstant,  ///< numbers[0]
    kFormula,   ///< the formula of `op` in elementwise.def; where it has attributes, numbers are these
    kSelect,    ///< args[0] != 0 ? args[1] : args[2]
    kRound,     ///< to `dtype`, bf16 or f16, and back: a cast that the body itself has
    kRotate,    ///< columns 2i and 2i + 1 of args[0] by args[1] and args[2], cosine and sine: loads that repeat twice
    kSum,       ///< over the columns; args[0] is wide
    kMax,       ///< NaN where one is
    kMin,       ///< likewise
    kPeak,      ///< the largest magnitude; NaN where one is
    kScale,     ///< of a row that is quantized: peak / numbers[0], or 1, as ops.def says under quantize
    kInverse,   ///< numbers[0] / peak, or 0 of a row without a scale of its own
    kQuantize,  ///< args[0] * args[1], an inverse, in IEEE arithmetic; 0 where that is 0
  };
  struct Step {
    Do what = Do::kLoad;
    Op op = Op::kAdd;
    DType dtype = DType::kF32;
    std::array<int, 3> args{-1, -1, -1};  ///< numbers of earlier steps, -1 behind the last
    std::array<double, 2> numbers{};
    int access = -1;  ///< in `loads`
    bool is_wide = false;
  };
  /// What goes to result i of the op: `step`, rounded to the result's dtype (nearest even; into i8, u8 and f8e4m3
  /// saturating).
  struct Result {
    int step = -1;
    std::vector<int> axes;  ///< as in RowAccess
  };

  Shape space;
  std::vector<RowAccess> loads;
  std::vector<Step> steps;
  std::vector<Result> results;
  /// Whether anything is reduced or rotated, so that the columns of a row belong together. Elsewhere axes may be walked
  /// in any order and merged.
  bool needs_rows = false;
};

/// Whether what a program repeats of its operands are pixels of channels-last images, so that columns, which are channels, each have
/// an element of their own; `made` is the type of its first result.
[[nodiscard]] bool repeats_whole_pixels(const RowProgram& program, const TensorType& made);

[[nodiscard]] constexpr bool is_reduction(RowProgram::Do what) {
  return what == RowProgram::Do::kSum || what == RowProgram::Do::kMax || what == RowProgram::Do::kMin ||
         what == RowProgram::Do::kPeak;
}

/// The row program of a body, or why it has none, in words that end "... is not fused".
///
/// Bodies compute in f32 and round where they have a cast: an input of another dtype (bf16, f16, f8e4m3, i8, bool) is read
/// through one, a result that is stored in another dtype is cast as the last thing that happens to it. Every value is of the space's shape, or
/// broadcasts to it, or is what a reduction over the innermost axis leaves; a reshape may put that axis back, with
/// extent 1. An input may be stretched to the space: resize2d, of nearest neighbours by whole factors. Beside rows that are
/// reduced, one element for each of them may be gathered from an input of one axis.
[[nodiscard]] std::variant<RowProgram, std::string> row_program_of(const Graph& body);

}  // namespace headroom
