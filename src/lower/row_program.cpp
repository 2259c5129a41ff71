#include "lower/row_program.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "base/error.hpp"
#include "ir/expand.hpp"
#include "ir/infer.hpp"
#include "ir/op_definition.hpp"

namespace headroom {
namespace {

using Do = RowProgram::Do;
using Step = RowProgram::Step;

/// The reason why a body has no row program.
struct Unfit {
  std::string reason;
};
[[noreturn]] void refuse(const Node& node, std::string_view reason) {
  throw Unfit{fmt::format("{} {}", name_of(node.op), reason)};
}

bool can_be_read(DType dtype) {
  switch (dtype) {
    case DType::kF32:
    case DType::kBF16:
    case DType::kF16:
    case DType::kF8E4M3:
    case DType::kI8:
    case DType::kU8:
    case DType::kBool:
      return true;
    default:
      return false;
  }
}
bool can_be_written(DType dtype) { return can_be_read(dtype) && dtype != DType::kBool; }
bool is_computed(DType dtype) { return dtype == DType::kF32 || dtype == DType::kBool; }

bool is_along_rows(Op op) {
  return op == Op::kSoftmax || op == Op::kLayerNorm || op == Op::kRmsNorm || op == Op::kQuantize;
}
bool is_sum_or_extreme(Op op) { return op == Op::kSum || op == Op::kMean || op == Op::kAmax || op == Op::kAmin; }

/// The largest magnitude that quantize uses, from ops.def.
double largest_of(DType dtype) { return dtype == DType::kI8 ? 127 : 448; }

class Lowering {
 public:
  explicit Lowering(const Graph& body) : body_(body), known_(body.value_count()) {
    const std::vector<ValueId> inputs = body.values_of(ValueKind::kInput);
    for (std::size_t i = 0; i < inputs.size(); ++i) known_[index_of(inputs[i])].input = static_cast<int>(i);
  }

  RowProgram run() {
    find_whole_reads();
    for (const Node& node : body_.nodes()) survey(node);
    for (const Node& node : body_.nodes()) lower(node);
    check_repeats();
    check_gathers();
    for (const Output& output : body_.outputs()) program_.results.push_back(result(output));
    drop_unread();
    if (program_.needs_rows) check_layouts();
    return std::move(program_);
  }

 private:
  struct Known {
    int input = -1;              ///< of an input, its number: loads are made where it is read
    int step = -1;               ///< of a computed value
    ValueId cast_of = kNoValue;  ///< the input whose f32 cast this is
    bool is_read_whole = false;  ///< by an op other than a resize2d or gather
    bool is_dropped = false;     ///< lacks the space's last axis
    bool is_stored = false;      ///< cast to its storage dtype: `step` is the value before the cast
  };

  [[nodiscard]] const TensorType& type(ValueId value) const { return body_.type(value); }
  [[nodiscard]] const Shape& shape(ValueId value) const { return body_.type(value).shape; }
  [[nodiscard]] Known& known(ValueId value) { return known_[index_of(value)]; }
  [[nodiscard]] bool is_input(ValueId value) { return known(value).input >= 0; }
  [[nodiscard]] static bool is_scalar(const Shape& shape) { return shape.numel() == 1 && shape.rank() == 0; }

  // First pass: which values lack the last axis, and what the space is.

  void find_whole_reads() {
    for (const Node& node : body_.nodes()) {
      if (node.op == Op::kCast && is_input(node.inputs[0]) && type(node.results[0]).dtype == DType::kF32)
        known(node.results[0]).cast_of = node.inputs[0];
      const bool is_part = node.op == Op::kResize2d || node.op == Op::kGather;
      for (std::size_t k = is_part ? 1 : 0; k < node.inputs.size(); ++k) known(node.inputs[k]).is_read_whole = true;
    }
    for (const Output& output : body_.outputs()) known(output.value).is_read_whole = true;
  }

  void survey(const Node& node) {
    const ValueId result = node.results[0];
    const auto cover = [&](ValueId value) {
      if (!known(value).is_dropped) program_.space = broadcast_shapes(program_.space, shape(value));
    };
    if (node.op == Op::kReshape) {
      survey_reshape(node);
    } else if (node.op == Op::kResize2d) {
      survey_resize(node);
      cover(result);
    } else if (known(result).cast_of != kNoValue && !known(result).is_read_whole) {
      return;  // the input of a resize2d or gather may be smaller than the space
    } else if (node.op == Op::kGather) {
      survey_gather(node);
      cover(result);
    } else if (node.op == Op::kRope) {
      cover(node.inputs[0]);
      cover(result);
      program_.needs_rows = true;
    } else if (is_sum_or_extreme(node.op)) {
      const std::vector<std::int64_t>& axes = node.attributes[attr::kAxes];
      if (known(node.inputs[0]).is_dropped || axes != std::vector<std::int64_t>{shape(node.inputs[0]).rank() - 1})
        refuse(node, "goes over other axes than the innermost");
      cover(node.inputs[0]);
      known(result).is_dropped = true;
      program_.needs_rows = true;
    } else if (is_along_rows(node.op)) {
      if (known(node.inputs[0]).is_dropped) refuse(node, "goes over another axis than the innermost");
      for (const ValueId input : node.inputs) cover(input);
      cover(result);
      if (node.op == Op::kQuantize) known(node.results[1]).is_dropped = true;
      program_.needs_rows = true;
    } else if (is_elementwise(node.op) || node.op == Op::kSelect || node.op == Op::kCast || node.op == Op::kBroadcast) {
      for (const ValueId input : node.inputs)
        if (known(input).is_dropped && !is_scalar(shape(input))) known(result).is_dropped = true;
      if (known(result).is_dropped) return;
      for (const ValueId input : node.inputs)
        if (!is_scalar(shape(input))) cover(input);
      cover(result);
    } else if (node.op != Op::kConstant) {
      refuse(node, "works on more than rows");
    }
  }

  /// A reshape that drops the last axis, of extent 1, or restores it.
  void survey_reshape(const Node& node) {
    const Shape& from = shape(node.inputs[0]);
    const Shape& to = shape(node.results[0]);
    const auto has_one_more = [](const Shape& longer, const Shape& other) {
      if (longer.rank() != other.rank() + 1 || longer[-1] != 1) return false;
      return std::ranges::equal(other.dims(), longer.dims().first(other.dims().size()));
    };
    const bool is_dropped = known(node.inputs[0]).is_dropped;
    if (has_one_more(to, from) && (is_dropped || is_input(node.inputs[0]))) {
      program_.space = broadcast_shapes(program_.space, to);
    } else if (has_one_more(from, to) && !is_dropped && !is_input(node.inputs[0])) {
      known(node.results[0]).is_dropped = true;
    } else if (from == to) {
      known(node.results[0]).is_dropped = is_dropped;
    } else {
      refuse(node, "moves elements to other rows");
    }
  }

  void survey_resize(const Node& node) const {
    const Shape &from = shape(node.inputs[0]), &to = shape(node.results[0]);
    if (node.attributes[attr::kMode] != ResizeMode::kNearest || to[2] % from[2] != 0 || to[3] % from[3] != 0)
      refuse(node, "is not of nearest neighbours by whole factors");
    if (partly_read_input(node) == kNoValue) refuse(node, "stretches what the body computes");
  }
  void survey_gather(const Node& node) const {
    const Shape& ids = shape(node.input(Role::kIds));
    if (shape(node.input(Role::kTable)).rank() != 1 || ids.rank() == 0 || ids[-1] != 1)
      refuse(node, "takes more than one element for each row");
    if (partly_read_input(node) == kNoValue || known_[index_of(node.input(Role::kIds))].input < 0)
      refuse(node, "takes what the body computes, or where it does");
  }
  /// The input that a resize2d stretches, or a gather takes elements from.
  [[nodiscard]] ValueId partly_read_input(const Node& node) const {
    const ValueId x = node.inputs[0];
    const Known& it = known_[index_of(x)];
    return it.input >= 0 ? x : it.cast_of;
  }

  // Second pass: the steps.

  int push(Step step) {
    for (const int arg : step.args) step.is_wide = step.is_wide || (arg >= 0 && is_wide(arg));
    if (is_reduction(step.what)) step.is_wide = false;
    program_.steps.push_back(step);
    return static_cast<int>(program_.steps.size()) - 1;
  }
  [[nodiscard]] bool is_wide(int step) const { return program_.steps[static_cast<std::size_t>(step)].is_wide; }
  int formula(Op op, std::array<int, 3> args, std::array<double, 2> numbers = {}) {
    return push({.what = Do::kFormula, .op = op, .args = args, .numbers = numbers});
  }
  int constant(double value) { return push({.what = Do::kConstant, .numbers = {value, 0}}); }

  /// Loads an input for each element of the space or, with `is_dropped`, for each row. `seen` is the input's shape
  /// there: trailing axes of extent 1 may be added, and axes along which elements repeat are extended.
  int load(ValueId value, const Shape& seen, bool is_dropped) {
    RowAccess access{.operand = known(value).input, .axes = axes_of(seen, is_dropped), .repeats = {}};
    repeat(access, shape(value), seen);
    if (!can_be_read(type(value).dtype)) throw Unfit{fmt::format("an operand is {}", type(value).dtype)};
    const auto found = std::ranges::find(program_.loads, access);
    const auto number = static_cast<int>(found - program_.loads.begin());
    for (std::size_t i = 0; i < program_.steps.size(); ++i)
      if (program_.steps[i].what == Do::kLoad && program_.steps[i].access == number) return static_cast<int>(i);
    Step step{.what = Do::kLoad, .access = number, .is_wide = !access.axes.empty() && access.axes.back() >= 0};
    program_.loads.push_back(std::move(access));
    return push(step);
  }

  /// Loads one element per row, at an index that another input holds.
  int gather(const Node& node) {
    const ValueId table = partly_read_input(node);
    if (!can_be_read(type(table).dtype)) throw Unfit{fmt::format("an operand is {}", type(table).dtype)};
    program_.loads.push_back({.operand = known(node.input(Role::kIds)).input,
                              .axes = axes_of(shape(node.input(Role::kIds)), false),
                              .repeats = {}});
    program_.loads.push_back({.operand = known(table).input,
                              .axes = std::vector<int>(static_cast<std::size_t>(program_.space.rank()), -1),
                              .repeats = {},
                              .index = static_cast<int>(program_.loads.size()) - 1,
                              .places = shape(table)[0]});
    return push({.what = Do::kLoad, .access = static_cast<int>(program_.loads.size()) - 1});
  }
  void check_gathers() const {
    if (!program_.needs_rows &&
        std::ranges::any_of(program_.loads, [](const RowAccess& load) { return load.index >= 0; }))
      throw Unfit{"gather is used without an op over rows"};
  }

  /// Records along which axes an operand of shape `own` repeats to reach the shape `seen`.
  static void repeat(RowAccess& access, const Shape& own, const Shape& seen) {
    std::vector<int> repeats(access.axes.size(), 1);
    for (std::size_t axis = 0; axis < access.axes.size(); ++axis) {
      const int from = access.axes[axis];
      if (from < 0 || from >= own.rank() || own[from] == seen[from]) continue;
      if (own[from] == 1)
        access.axes[axis] = -1;
      else
        repeats[axis] = static_cast<int>(seen[from] / own[from]);
    }
    if (std::ranges::any_of(repeats, [](int count) { return count > 1; })) access.repeats = std::move(repeats);
  }

  /// If operands repeat an axis by different factors, the axis is split into axes; each factor must be a multiple of
  /// the next.
  void check_repeats() const {
    for (std::size_t axis = 0; axis < static_cast<std::size_t>(program_.space.rank()); ++axis)
      for (const RowAccess& one : program_.loads)
        for (const RowAccess& other : program_.loads) {
          if (one.repeats.empty() || other.repeats.empty()) continue;
          const int less = std::min(one.repeats[axis], other.repeats[axis]);
          if (std::max(one.repeats[axis], other.repeats[axis]) % less != 0)
            throw Unfit{"operands are stretched along one axis by factors of which none is a multiple of the other"};
        }
  }

  /// The operand's axis for each axis of the space, or -1 where the operand has one element.
  [[nodiscard]] std::vector<int> axes_of(const Shape& seen, bool is_dropped) const {
    const int rank = program_.space.rank();
    const int shift = rank - (is_dropped ? 1 : 0) - seen.rank();
    if (shift < 0) throw Unfit{"operands are of more axes than the rows"};
    std::vector<int> axes(static_cast<std::size_t>(rank), -1);
    for (int axis = 0; axis < seen.rank(); ++axis)
      if (seen[axis] != 1) axes[static_cast<std::size_t>(axis + shift)] = axis;
    return axes;
  }

  /// Operand k as f32 or bool.
  int operand(const Node& node, std::size_t k, bool is_dropped) {
    const ValueId value = node.inputs[k];
    if (is_input(value)) {
      if (node.op != Op::kCast && !is_computed(type(value).dtype))
        refuse(node, fmt::format("computes in {}", type(value).dtype));
      return load(value, shape(value), is_dropped);
    }
    if (known(value).is_dropped != is_dropped && !is_scalar(shape(value)))
      refuse(node, "mixes rows with their elements");
    return known(value).is_stored ? rounded(node, value) : known(value).step;
  }

  /// The value of a narrower float that was cast, as the cast back to f32 reads it.
  int rounded(const Node& node, ValueId value) {
    const DType dtype = type(value).dtype;
    if (node.op != Op::kCast || (dtype != DType::kBF16 && dtype != DType::kF16))
      refuse(node, fmt::format("computes in {}", dtype));
    return push({.what = Do::kRound, .dtype = dtype, .args = {known(value).step, -1, -1}});
  }

  void lower(const Node& node) {
    Known& result = known(node.results[0]);
    switch (node.op) {
      case Op::kConstant:
        result.step = constant_of(node);
        return;
      case Op::kCast:
        return lower_cast(node);
      case Op::kReshape:
        result.step = is_input(node.inputs[0]) ? load(node.inputs[0], shape(node.results[0]), false)
                                               : operand(node, 0, known(node.inputs[0]).is_dropped);
        return;
      case Op::kBroadcast:
        result.step = operand(node, 0, result.is_dropped);
        return;
      case Op::kSelect: {
        const std::array<int, 3> args = {operand(node, 0, result.is_dropped), operand(node, 1, result.is_dropped),
                                         operand(node, 2, result.is_dropped)};
        result.step = push({.what = Do::kSelect, .args = args});
        return;
      }
      case Op::kResize2d:
        if (!is_computed(type(node.results[0]).dtype))
          refuse(node, fmt::format("computes in {}", type(node.results[0]).dtype));
        result.step = load(partly_read_input(node), shape(node.results[0]), false);
        return;
      case Op::kGather:
        result.step = gather(node);
        return;
      case Op::kRope:
        return lower_rope(node);
      case Op::kSum:
      case Op::kMean:
      case Op::kAmax:
      case Op::kAmin:
        result.step = reduce(node.op, node, row_operand(node));
        return;
      case Op::kSoftmax:
        result.step = softmax(node);
        return;
      case Op::kLayerNorm:
      case Op::kRmsNorm:
        result.step = norm(node);
        return;
      case Op::kQuantize:
        return lower_quantize(node);
      default:
        result.step = elementwise(node);
    }
  }

  int constant_of(const Node& node) {
    if (node.attributes[attr::kValues].size() != 1) refuse(node, "holds more than one number");
    if (!is_computed(type(node.results[0]).dtype)) refuse(node, "is no f32");
    return constant(node.attributes[attr::kValues][0]);
  }

  void lower_cast(const Node& node) {
    Known& result = known(node.results[0]);
    const DType to = type(node.results[0]).dtype;
    if (result.cast_of != kNoValue && !result.is_read_whole) return;
    result.step = operand(node, 0, result.is_dropped);
    if (to == DType::kF32) return;
    if (!can_be_written(to)) refuse(node, fmt::format("makes {}", to));
    result.is_stored = true;
  }

  int elementwise(const Node& node) {
    const bool is_dropped = known(node.results[0]).is_dropped;
    if (!is_computed(type(node.results[0]).dtype))
      refuse(node, fmt::format("computes in {}", type(node.results[0]).dtype));
    std::array<int, 3> args{-1, -1, -1};
    for (std::size_t k = 0; k < node.inputs.size(); ++k) args[k] = operand(node, k, is_dropped);
    std::array<double, 2> numbers{};
    std::size_t count = 0;
    for (const auto& [name, value] : node.attributes.all()) numbers.at(count++) = std::get<double>(value);
    return formula(node.op, args, numbers);
  }

  void lower_rope(const Node& node) {
    const int x = operand(node, 0, false);
    if (!is_input(node.input(Role::kCos)) || !is_input(node.input(Role::kSin))) refuse(node, "computes its tables");
    const auto table = [&](ValueId value) {
      const Shape& own = shape(value);  // or with leading axes
      Shape seen = own;
      seen.set(-1, 2 * own[-1]);
      return load(value, seen, false);
    };
    const int cosine = table(node.input(Role::kCos));
    const int sine = table(node.input(Role::kSin));
    known(node.results[0]).step = push({.what = Do::kRotate, .args = {x, cosine, sine}});
  }

  /// Operand 0 of an op over rows.
  int row_operand(const Node& node) {
    const int x = operand(node, 0, false);
    if (!is_wide(x) || shape(node.inputs[0])[-1] != program_.space[-1]) refuse(node, "goes over other rows");
    return x;
  }

  int reduce(Op op, const Node& node, int x) {
    switch (op) {
      case Op::kAmax:
        return push({.what = Do::kMax, .args = {x, -1, -1}});
      case Op::kAmin:
        return push({.what = Do::kMin, .args = {x, -1, -1}});
      case Op::kSum:
        return push({.what = Do::kSum, .args = {x, -1, -1}});
      default:
        return mean(node, x);
    }
  }
  int mean(const Node& node, int x) {
    const int sum = push({.what = Do::kSum, .args = {x, -1, -1}});
    return formula(Op::kMulScalar, {sum, -1, -1}, {1.0 / static_cast<double>(shape(node.inputs[0])[-1]), 0});
  }

  int softmax(const Node& node) {
    const int x = row_operand(node);
    const int largest = push({.what = Do::kMax, .args = {x, -1, -1}});
    const int rest = formula(Op::kSub, {x, largest, -1});
    const int power = formula(Op::kExp, {rest, -1, -1});
    const int sum = push({.what = Do::kSum, .args = {power, -1, -1}});
    return formula(Op::kMul, {power, formula(Op::kDiv, {constant(1), sum, -1}), -1});
  }

  /// Mean and variance in two passes: the one-pass form loses all digits where the mean is large.
  int norm(const Node& node) {
    int x = row_operand(node);
    if (node.op == Op::kLayerNorm) x = formula(Op::kSub, {x, mean(node, x), -1});
    const int spread = mean(node, formula(Op::kMul, {x, x, -1}));
    const int above = formula(Op::kAddScalar, {spread, -1, -1}, {node.attributes[attr::kEps], 0});
    x = formula(Op::kMul, {x, formula(Op::kRsqrt, {above, -1, -1}), -1});
    if (node.inputs.size() > 1) x = formula(Op::kMul, {x, operand(node, 1, false), -1});
    if (node.inputs.size() > 2) x = formula(Op::kAdd, {x, operand(node, 2, false), -1});
    return x;
  }

  void lower_quantize(const Node& node) {
    const int x = row_operand(node);
    const double largest = largest_of(node.attributes[attr::kDType]);
    const int peak = push({.what = Do::kPeak, .args = {x, -1, -1}});
    const int inverse = push({.what = Do::kInverse, .args = {peak, -1, -1}, .numbers = {largest, 0}});
    known(node.results[0]).step = push({.what = Do::kQuantize, .args = {x, inverse, -1}});
    known(node.results[0]).is_stored = true;
    known(node.results[1]).step = push({.what = Do::kScale, .args = {peak, -1, -1}, .numbers = {largest, 0}});
  }

  RowProgram::Result result(const Output& output) {
    const Known& value = known(output.value);
    if (value.step < 0) throw Unfit{"a result is an operand"};
    const Shape& own = shape(output.value);
    std::int64_t places = 1;
    for (int axis = 0; axis + 1 < program_.space.rank(); ++axis) places *= program_.space[axis];
    const bool has_columns = !value.is_dropped && own.rank() > 0 && own[-1] == program_.space[-1];
    if (has_columns) places *= program_.space[-1];
    if (own.numel() != places) throw Unfit{"a result is smaller than the others"};
    if (!has_columns && is_wide(value.step)) throw Unfit{"a result is smaller than the others"};
    return {.step = value.step, .axes = axes_of(own, value.is_dropped)};
  }

  /// Rows are contiguous only if operands and results are row-major.
  void check_layouts() const {
    const auto check = [&](ValueId value) {
      if (body_.type(value).layout != Layout::kRowMajor) throw Unfit{"an image lies in another order than its rows"};
    };
    for (const ValueId input : body_.values_of(ValueKind::kInput)) check(input);
    for (const Output& output : body_.outputs()) check(output.value);
  }

  /// Removes steps and loads that nothing reads.
  void drop_unread() {
    std::vector<Step>& steps = program_.steps;
    std::vector<bool> is_read(steps.size(), false);
    for (const auto& result : program_.results) is_read[static_cast<std::size_t>(result.step)] = true;
    for (std::size_t i = steps.size(); i-- > 0;)
      for (const int arg : steps[i].args)
        if (is_read[i] && arg >= 0) is_read[static_cast<std::size_t>(arg)] = true;
    std::vector<int> moved(steps.size(), -1);
    std::vector<Step> kept;
    std::vector<RowAccess> loads;
    for (std::size_t i = 0; i < steps.size(); ++i) {
      if (!is_read[i]) continue;
      Step step = steps[i];
      for (int& arg : step.args)
        if (arg >= 0) arg = moved[static_cast<std::size_t>(arg)];
      if (step.what == Do::kLoad) {
        RowAccess access = std::move(program_.loads[static_cast<std::size_t>(step.access)]);
        if (access.index >= 0) {
          loads.push_back(program_.loads[static_cast<std::size_t>(access.index)]);
          access.index = static_cast<int>(loads.size()) - 1;
        }
        loads.push_back(std::move(access));
        step.access = static_cast<int>(loads.size()) - 1;
      }
      moved[i] = static_cast<int>(kept.size());
      kept.push_back(step);
    }
    for (auto& result : program_.results) result.step = moved[static_cast<std::size_t>(result.step)];
    steps = std::move(kept);
    program_.loads = std::move(loads);
  }

  const Graph& body_;
  std::vector<Known> known_;  // by value
  RowProgram program_;
};

}  // namespace

bool repeats_whole_pixels(const RowProgram& program, const TensorType& made) {
  const bool are_channels_last =
      made.layout == Layout::kChannelsLast && program.space.rank() == 4 && program.space[1] > 1;
  return !program.needs_rows && are_channels_last && std::ranges::all_of(program.loads, [](const RowAccess& load) {
    return load.repeats.empty() || load.repeats[1] == 1;
  });
}

std::variant<RowProgram, std::string> row_program_of(const Graph& body) {
  const Graph plain = expand(body);
  try {
    return Lowering(plain).run();
  } catch (const Unfit& unfit) {
    return unfit.reason;
  } catch (const Error& unfit) {  // shapes that do not broadcast to one space
    return std::string(unfit.what());
  }
}

}  // namespace headroom
