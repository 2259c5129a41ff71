#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "base/tensors/shape.hpp"
#include "ir/graph.hpp"

namespace headroom {

/// Maps a point of a row program's iteration space to an element of an operand.
struct RowAccess {
  int operand = 0;        ///< number of the input
  std::vector<int> axes;  ///< the operand's axis for each axis of the space, or -1: broadcast
  /// For each axis of the space, how many neighbouring points read the same element: point i reads element i /
  /// repeats. Empty if no axis repeats.
  std::vector<int> repeats;
  /// For a gathered operand, the number of the load that holds the index, which is below `places`. This load is i32
  /// or i64, and no step reads it. The gathered operand has one axis, and `axes` does not name it.
  int index = -1;
  std::int64_t places = 0;

  /// Whether the operand is read at the point itself, apart from broadcast axes.
  [[nodiscard]] bool is_plain() const { return repeats.empty() && index < 0; }
  friend bool operator==(const RowAccess&, const RowAccess&) = default;
};

/// The program of a fused op's body: a straight-line sequence of steps in f32, the same for every row of a space
/// [rows..., columns]. Norms, softmax, means and quantizers are decomposed into reductions over a row and
/// elementwise formulas. A code generator thus needs only loads, formulas and four reductions.
///
/// A wide step has a value for each column; other steps have one per row. True is 1, false is 0.
struct RowProgram {
  enum class Do : std::uint8_t {
    kLoad,      ///< an element of loads[access], as f32
    kConstant,  ///< numbers[0]
    kFormula,   ///< the formula of `op` in elementwise.def; where it has attributes, numbers are these
    kSelect,    ///< args[0] != 0 ? args[1] : args[2]
    kRound,     ///< to `dtype`, bf16 or f16, and back: a cast in the body itself
    kRotate,    ///< columns 2i and 2i + 1 of args[0] by args[1] and args[2], cosine and sine: loads that repeat twice
    kSum,       ///< over the columns; args[0] is wide
    kMax,       ///< NaN if any element is
    kMin,       ///< likewise
    kPeak,      ///< the largest magnitude; NaN if any element is
    kScale,     ///< the scale of a quantized row: peak / numbers[0], or 1, as ops.def says under quantize
    kInverse,   ///< numbers[0] / peak, or 0 for a row without a scale of its own
    kQuantize,  ///< args[0] * args[1], an inverse, in IEEE arithmetic; 0 if the inverse is 0
  };
  struct Step {
    Do what = Do::kLoad;
    Op op = Op::kAdd;
    DType dtype = DType::kF32;
    std::array<int, 3> args{-1, -1, -1};  ///< numbers of earlier steps, -1 after the last
    std::array<double, 2> numbers{};
    int access = -1;  ///< in `loads`
    bool is_wide = false;
  };
  /// Result i of the op is `step`, rounded to the result's dtype (nearest even; saturating for i8, u8 and f8e4m3).
  struct Result {
    int step = -1;
    std::vector<int> axes;  ///< as in RowAccess
  };

  Shape space;
  std::vector<RowAccess> loads;
  std::vector<Step> steps;
  std::vector<Result> results;
  /// Whether any step reduces or rotates, so that a row must stay together. Otherwise axes may be visited in any
  /// order and merged.
  bool needs_rows = false;
};

/// Whether a program repeats its operands only over whole pixels of channels-last images, so that each column, a
/// channel, reads an element of its own. `made` is the type of its first result.
[[nodiscard]] bool repeats_whole_pixels(const RowProgram& program, const TensorType& made);

[[nodiscard]] constexpr bool is_reduction(RowProgram::Do what) {
  return what == RowProgram::Do::kSum || what == RowProgram::Do::kMax || what == RowProgram::Do::kMin ||
         what == RowProgram::Do::kPeak;
}

/// The row program of a body, or the reason why it has none.
///
/// Bodies compute in f32 and round where they have a cast. An input of another dtype (bf16, f16, f8e4m3, i8, bool)
/// is read through a cast; a result stored in another dtype is cast last. Every value has the shape of the space,
/// broadcasts to it, or is a reduction over the innermost axis. A reshape may restore that axis with extent 1. An
/// input may be upsampled to the space: resize2d, nearest, by whole factors. In a body with reductions, one element
/// per row may be gathered from an input of one axis.
[[nodiscard]] std::variant<RowProgram, std::string> row_program_of(const Graph& body);

}  // namespace headroom
