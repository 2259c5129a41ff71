#include "kernels/fused/row_tape.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "base/error.hpp"
#include "base/tensors/divide_up.hpp"
#include "ir/op_definition.hpp"

namespace headroom {
namespace {

using Do = TapeInstruction::Do;
using Kind = TapePlace::Kind;
using Step = RowProgram::Step;

constexpr std::int64_t kMostBlock = 1024;    // columns: limited by the planes in the first-level cache;
constexpr std::int64_t kMostWithout = 4096;  // without planes a longer block amortizes the call
constexpr std::int64_t kPiece = 4096;        // of rows that are cut
constexpr std::int64_t kMostRows = 32;       // of a chunk
constexpr std::int64_t kMostShared = 16384;  // columns of values computed once per run of rows
constexpr std::int64_t kLeastConverted = 8;  // rows of a run for which bf16 is converted once

std::size_t at(int index) { return static_cast<std::size_t>(index); }

bool is_reduction(Do what) {
  return what == Do::kSum || what == Do::kSumProduct || what == Do::kSumSquares || what == Do::kMax ||
         what == Do::kMaxOfNumbers || what == Do::kMin || what == Do::kPeak;
}

/// The number of operands of a formula, including the constants from attributes.
std::size_t operands_of_formula(Op op) {
  HR_CHECK(is_elementwise(op));
  return schema_of(op).operands.most() + schema_of(op).attributes.size();
}

/// Activations that are fused with a preceding sum, with a following multiplication, or with the reduction to their
/// peak.
bool is_activation(Op op) { return op == Op::kGeluTanh || op == Op::kGeluErf || op == Op::kSilu; }

/// Whether every instruction reads and writes the dtype; others are converted.
bool is_direct(DType dtype) { return dtype == DType::kF32 || dtype == DType::kBF16; }

using Arguments = std::array<int, kMostTapeArguments>;  // numbers of values, -1 after the last
constexpr Arguments kNoArguments{-1, -1, -1, -1, -1};

/// A value of the program, with its steps fused into instructions.
struct Value {
  enum class Source : std::uint8_t { kLoad, kConstant, kComputed };
  Source source = Source::kComputed;
  Do what = Do::kFormula;
  Op op = Op::kAdd;
  DType dtype = DType::kF32;
  Arguments args = kNoArguments;
  double number = 0;
  int access = -1;

  bool is_wide = false;
  bool is_shared = false;  ///< the same for all rows of a run
  bool is_kept = false;    ///< from one phase to others
  bool is_coarse = false;
  int uses = 0;            ///< steps and results of the program that read it
  int level = 0;           ///< the first phase in which it could be computed
  int readers = 0;         ///< values and results
  std::set<int> needed{};  ///< phases
  TapePlace place{};       ///< once it is written
};

class TapeWriter {
 public:
  explicit TapeWriter(const BoundProgram& bound) : bound_(bound) {
    tape_.walk = bound.walk;
    tape_.dtypes = bound.loads;
    tape_.dtypes.insert(tape_.dtypes.end(), bound.results.begin(), bound.results.end());
    tape_.loads = bound.loads.size();
    cut_rows();
  }

  RowTape run() {
    count_uses();
    for (const Step& step : bound_.program.steps) translate(step);
    for (std::size_t r = 0; r < bound_.program.results.size(); ++r)
      results_.push_back(without_clamp(step_of_[at(bound_.program.results[r].step)], bound_.results[r]));
    is_stored_.assign(results_.size(), false);
    find_levels();
    find_readers();
    find_phases();
    find_precision();
    write_shared();
    for (int phase = 0; phase <= last_; ++phase) write_phase(phase);
    assign_places();
    choose_sizes();
    list_streams();
    return std::move(tape_);
  }

 private:
  [[nodiscard]] std::size_t loads() const { return tape_.loads; }
  [[nodiscard]] Value& value(int index) { return values_[at(index)]; }

  /// Without needs_rows, a long row is cut for threads to share.
  void cut_rows() {
    RowWalk::Axis& columns = tape_.walk.columns;
    tape_.columns = tape_.row_columns = columns.extent;
    if (bound_.program.needs_rows || columns.extent <= kMostShared) return;
    tape_.columns = kPiece;
    tape_.is_cut = true;
    RowWalk::Axis pieces{
        .extent = divide_up(columns.extent, kPiece), .strides = columns.strides, .repeats = columns.repeats};
    for (std::int64_t& stride : pieces.strides) stride *= kPiece;
    tape_.walk.outer.push_back(std::move(pieces));
  }

  // The program's steps, fused into instructions.

  int push(Value value) {
    values_.push_back(std::move(value));
    return static_cast<int>(values_.size()) - 1;
  }
  int constant(double number) {
    for (std::size_t i = 0; i < values_.size(); ++i)
      if (values_[i].source == Value::Source::kConstant && values_[i].number == number) return static_cast<int>(i);
    return push({.source = Value::Source::kConstant, .number = number});
  }
  [[nodiscard]] bool is_formula(int index, Op op) const {
    const Value& value = values_[at(index)];
    return value.source == Value::Source::kComputed && value.what == Do::kFormula && value.op == op;
  }

  [[nodiscard]] bool is_constant(int index) const { return values_[at(index)].source == Value::Source::kConstant; }
  [[nodiscard]] bool is_zero(int index) const {
    return values_[at(index)].source == Value::Source::kConstant && values_[at(index)].number == 0;
  }

  void translate(const Step& step) {
    Arguments args = kNoArguments;
    for (std::size_t k = 0; k < step.args.size(); ++k)
      if (step.args[k] >= 0) args[k] = step_of_[at(step.args[k])];
    const int made = translated(step, args);
    value(made).uses = uses_[step_of_.size()];
    step_of_.push_back(made);
  }
  void count_uses() {
    uses_.assign(bound_.program.steps.size(), 0);
    for (const Step& step : bound_.program.steps)
      for (const int arg : step.args)
        if (arg >= 0) ++uses_[at(arg)];
    for (const RowProgram::Result& result : bound_.program.results) ++uses_[at(result.step)];
  }
  /// A byte saturates by itself.
  [[nodiscard]] int without_clamp(int index, DType dtype) const {
    const Value& clamp = values_[at(index)];
    if (dtype != DType::kU8 || !is_formula(index, Op::kClamp)) return index;
    const Value &low = values_[at(clamp.args[1])], &high = values_[at(clamp.args[2])];
    return low.number <= 0 && high.number >= 255 ? clamp.args[0] : index;
  }
  /// Whether a value has an element for each column of each row; values common to all rows are computed once, and
  /// are separate.
  [[nodiscard]] bool varies(int index) const {
    const Value& here = values_[at(index)];
    if (here.source == Value::Source::kConstant) return false;
    if (here.source == Value::Source::kLoad)
      return tape_.walk.columns.strides[at(here.access)] != 0 &&
             !(has_runs() && tape_.walk.outer.back().strides[at(here.access)] == 0);
    return !is_reduction(here.what) && std::ranges::any_of(here.args, [&](int arg) { return arg >= 0 && varies(arg); });
  }

  int translated(const Step& step, Arguments args) {
    const auto simple = [&](Do what) { return push({.what = what, .dtype = step.dtype, .args = args}); };
    switch (step.what) {
      case RowProgram::Do::kLoad:
        return push({.source = Value::Source::kLoad, .access = step.access});
      case RowProgram::Do::kConstant:
        return constant(step.numbers[0]);
      case RowProgram::Do::kFormula:
        return formula(step, args);
      case RowProgram::Do::kSelect:
        return simple(Do::kSelect);
      case RowProgram::Do::kRound:
        return simple(Do::kRound);
      case RowProgram::Do::kRotate:
        return simple(Do::kRotate);
      case RowProgram::Do::kSum:
        return sum(args[0]);
      case RowProgram::Do::kMax:
        return simple(Do::kMax);
      case RowProgram::Do::kMin:
        return simple(Do::kMin);
      case RowProgram::Do::kPeak:
        return simple(Do::kPeak);
      case RowProgram::Do::kQuantize:
        return simple(Do::kQuantize);
      case RowProgram::Do::kScale:
        args[1] = constant(step.numbers[0]);
        return simple(Do::kScale);
      case RowProgram::Do::kInverse:
        args[1] = constant(step.numbers[0]);
        return simple(Do::kInverse);
    }
    HR_CHECK(false);
  }

  int formula(const Step& step, Arguments args) {
    Op op = step.op;
    std::size_t given = 0;
    while (args[given] >= 0) ++given;
    for (std::size_t k = given, number = 0; k < operands_of_formula(op); ++k)
      args[k] = constant(step.numbers[number++]);
    if (op == Op::kAddScalar) op = Op::kAdd;
    if (op == Op::kMulScalar) op = Op::kMul;
    const auto [a, b] = std::pair(args[0], args[1]);
    const auto joined = [&](Do what, int of, int last) {
      return push({.what = what, .args = {value(of).args[0], value(of).args[1], last, -1, -1}});
    };
    if (is_activation(op) && is_formula(a, Op::kAdd) && value(a).uses == 1 && varies(a))
      return push({.what = Do::kActivationOfSum, .op = op, .args = {value(a).args[0], value(a).args[1], -1, -1, -1}});
    if (op == Op::kSub && is_formula(a, Op::kMul) && is_formula(b, Op::kMul) && is_constant(value(b).args[1]))
      return push({.what = Do::kSumOfProducts,
                   .args = {value(a).args[0], value(a).args[1], value(b).args[0],
                            constant(-value(value(b).args[1]).number), -1}});
    if (op == Op::kAdd) {  // a multiplication and a sum
      for (const auto& [normal, other] : {std::pair(a, b), std::pair(b, a)})
        if (value(normal).what == Do::kNormalize && is_zero(value(normal).args[2])) {
          Arguments joint = value(normal).args;
          joint[2] = other;
          return push({.what = Do::kNormalize, .args = joint});
        }
      if (is_formula(a, Op::kMul) && is_formula(b, Op::kMul))
        return push({.what = Do::kSumOfProducts,
                     .args = {value(a).args[0], value(a).args[1], value(b).args[0], value(b).args[1], -1}});
      for (const auto& [product, other] : {std::pair(a, b), std::pair(b, a)})
        if (is_formula(product, Op::kMul))
          return push(
              {.op = Op::kGateResidual, .args = {other, value(product).args[0], value(product).args[1], -1, -1}});
    } else if (op == Op::kMul) {
      for (const auto& [inner, other] : {std::pair(a, b), std::pair(b, a)})
        if (value(inner).what == Do::kFormula && value(inner).source == Value::Source::kComputed &&
            is_activation(value(inner).op) && value(inner).uses == 1 && varies(inner))
          return push({.what = Do::kGated, .op = value(inner).op, .args = {value(inner).args[0], other, -1, -1, -1}});
      for (const auto& [inner, other] : {std::pair(a, b), std::pair(b, a)})
        if (is_formula(inner, Op::kSub)) return joined(Do::kShiftedScale, inner, other);
      for (const auto& [inner, other] : {std::pair(a, b), std::pair(b, a)})
        if (value(inner).what == Do::kShiftedScale && a != b) {
          const Arguments of = value(inner).args;
          return push({.what = Do::kNormalize, .args = {of[0], other, constant(0), of[1], of[2]}});
        }
      for (const auto& [inner, other] : {std::pair(a, b), std::pair(b, a)})
        if (is_formula(inner, Op::kMul)) return joined(Do::kProduct, inner, other);
    } else if (op == Op::kExp && is_formula(a, Op::kSub)) {
      const auto [x, largest] = std::pair(value(a).args[0], value(a).args[1]);
      if (value(largest).what == Do::kMax && value(largest).args[0] == x)
        return push({.what = Do::kExpBelow, .args = {x, largest, -1, -1, -1}});
    }
    return push({.op = op, .args = args});
  }

  int sum(int of) {
    if (is_formula(of, Op::kMul)) {
      const Arguments args = value(of).args;
      if (args[0] == args[1] && is_formula(args[0], Op::kSub))
        return push({.what = Do::kSumSquares, .args = value(args[0]).args});
      return push({.what = Do::kSumProduct, .args = {args[0], args[1], -1, -1, -1}});
    }
    // (u - m)^2, as u - m multiplied by itself
    if (value(of).what == Do::kShiftedScale && is_formula(value(of).args[2], Op::kSub)) {
      const Arguments difference = value(value(of).args[2]).args;
      if (difference[0] == value(of).args[0] && difference[1] == value(of).args[1])
        return push({.what = Do::kSumSquares, .args = difference});
    }
    return push({.what = Do::kSum, .args = {of, -1, -1, -1, -1}});
  }

  // Scheduling.

  [[nodiscard]] bool has_runs() const {
    return !tape_.is_cut && !tape_.walk.outer.empty() && tape_.columns <= kMostShared;
  }

  void find_levels() {
    for (Value& value : values_) {
      const bool reduces = value.source == Value::Source::kComputed && is_reduction(value.what);
      if (value.source == Value::Source::kLoad) {
        value.is_wide = bound_.walk.columns.strides[at(value.access)] != 0 || is_halved(value);
        value.is_shared = value.is_wide && has_runs() && tape_.walk.outer.back().strides[at(value.access)] == 0;
      } else if (value.source == Value::Source::kComputed) {
        bool is_same = has_runs() && value.what != Do::kRotate && !reduces;
        for (const int arg : value.args) {
          if (arg < 0) continue;
          const Value& given = values_[at(arg)];
          value.level = std::max(value.level, given.level + (reduces ? 1 : 0));
          value.is_wide = value.is_wide || given.is_wide;
          is_same = is_same && (given.is_shared || given.source == Value::Source::kConstant);
        }
        if (reduces) value.is_wide = false;
        value.is_shared = is_same && value.is_wide;
      }
      last_ = std::max(last_, value.level);
    }
  }
  [[nodiscard]] bool is_halved(const Value& load) const { return bound_.walk.columns.repeats[at(load.access)] > 1; }

  /// Removes values that nothing reads since steps were fused.
  void find_readers() {
    for (const int result : results_) ++value(result).readers;
    for (std::size_t i = values_.size(); i-- > 0;)
      if (values_[i].readers > 0)
        for (const int arg : values_[i].args)
          if (arg >= 0) ++value(arg).readers;
    // exp(x - max) is NaN by itself if any element is NaN, and so is its sum.
    for (Value& largest : values_)
      if (largest.what == Do::kMax &&
          std::ranges::all_of(values_,
                              [&](const Value& reader) {
                                return reader.readers == 0 || reader.what == Do::kExpBelow || !reads(reader, largest);
                              }) &&
          std::ranges::none_of(results_, [&](int result) { return &value(result) == &largest; }))
        largest.what = Do::kMaxOfNumbers;
  }
  [[nodiscard]] bool reads(const Value& reader, const Value& of) const {
    return std::ranges::any_of(reader.args, [&](int arg) { return arg >= 0 && &values_[at(arg)] == &of; });
  }

  void find_phases() {
    for (const int result : results_) value(result).needed.insert(value(result).level);
    for (std::size_t i = values_.size(); i-- > 0;) {
      Value& here = values_[i];
      if (here.readers == 0) continue;
      here.is_kept =
          here.is_wide && !here.is_shared && here.source == Value::Source::kComputed && here.needed.size() > 1;
      for (const int arg : here.args) {
        if (arg < 0) continue;
        std::set<int>& needed = value(arg).needed;
        if (!here.is_wide)
          needed.insert(is_reduction(here.what) ? here.level - 1 : here.level);
        else if (here.is_kept)
          needed.insert(*here.needed.begin());
        else
          needed.insert(here.needed.begin(), here.needed.end());
      }
    }
    tape_.last_read.assign(loads(), -1);
    for (const Value& load : values_)
      if (load.source == Value::Source::kLoad && load.readers > 0)
        tape_.last_read[at(load.access)] = std::max(tape_.last_read[at(load.access)], *load.needed.rbegin());
    tape_.first_write = value(results_[0]).level;
  }

  /// Finds values that need only bf16 accuracy, in a body whose results are bf16, or quantized rows and their
  /// scales. A value qualifies if all its uses are rounded to bf16 or fewer bits. Relative errors are preserved only
  /// by multiplications, by the scaling of a row and by sums of exponentials.
  void find_precision() {
    bool is_all_rounded = true;
    for (std::size_t r = 0; r < results_.size(); ++r) {
      const Do made = value(results_[r]).what;
      is_all_rounded =
          is_all_rounded && (bound_.results[r] == DType::kBF16 || made == Do::kQuantize || made == Do::kScale);
    }
    for (Value& value : values_) value.is_coarse = is_all_rounded && value.source == Value::Source::kComputed;
    for (std::size_t i = values_.size(); i-- > 0;) {
      const Value& reader = values_[i];
      if (reader.readers == 0) continue;
      for (std::size_t k = 0; k < kMostTapeArguments; ++k)
        if (reader.args[k] >= 0 && !(reader.is_coarse && passes_on(reader, k))) value(reader.args[k]).is_coarse = false;
    }
  }
  [[nodiscard]] bool passes_on(const Value& reader, std::size_t k) const {
    const Value& arg = values_[at(reader.args[k])];
    switch (reader.what) {
      case Do::kFormula:
        return reader.op == Op::kMul || reader.op == Op::kDiv || reader.op == Op::kNeg;
      case Do::kShiftedScale:
        return k == 2;
      case Do::kProduct:
      case Do::kPeak:
      case Do::kScale:
      case Do::kInverse:
      case Do::kQuantize:
        return true;
      case Do::kGated:
        return k == 1;
      case Do::kRound:
        return reader.dtype == DType::kBF16;
      case Do::kSum:
        return arg.what == Do::kExpBelow || (arg.what == Do::kFormula && arg.op == Op::kExp);
      default:
        return false;
    }
  }

  // The instructions.

  TapePlace fresh(Kind kind) { return {kind, next_[static_cast<std::size_t>(kind)]++}; }

  TapePlace place_of_constant(int index) {
    Value& number = value(index);
    if (number.place.kind == Kind::kNone) {
      number.place = {Kind::kConstant, static_cast<int>(tape_.constants.size() / at(kTapeLanes))};
      tape_.constants.insert(tape_.constants.end(), at(kTapeLanes), static_cast<float>(number.number));
    }
    return number.place;
  }

  [[nodiscard]] static TapeInstruction instruction_of(const Value& value) {
    return {.what = value.what, .op = value.op, .dtype = value.dtype, .is_coarse = value.is_coarse};
  }

  /// Computes all values common to the rows of a run once, for their readers.
  void write_shared() {
    std::vector<bool> is_read(values_.size(), false);
    for (const Value& reader : values_)
      if (reader.readers > 0)
        for (const int arg : reader.args)
          if (arg >= 0 && (!reader.is_shared || !is_direct_load(value(arg)))) is_read[at(arg)] = true;
    for (const int result : results_) is_read[at(result)] = true;
    for (std::size_t i = 0; i < values_.size(); ++i) {
      Value& here = values_[i];
      if (!here.is_shared || here.readers == 0 || !is_read[i]) continue;
      if (here.source == Value::Source::kLoad) {
        const bool is_read_often = tape_.walk.outer.back().extent >= kLeastConverted;
        if (is_halved(here) || dtype_of(here) == DType::kF32 || (dtype_of(here) == DType::kBF16 && !is_read_often))
          continue;
        here.place = fresh(Kind::kShared);
        tape_.shared.push_back({.what = Do::kConvert, .x = {memory(here.access)}, .y = here.place});
        continue;
      }
      TapeInstruction instruction = instruction_of(here);
      for (std::size_t k = 0; k < kMostTapeArguments; ++k)
        if (here.args[k] >= 0) instruction.x[k] = ready(here.args[k]);
      instruction.y = here.place = fresh(Kind::kShared);
      tape_.shared.push_back(instruction);
    }
  }
  [[nodiscard]] DType dtype_of(const Value& load) const { return bound_.loads[at(load.access)]; }
  [[nodiscard]] bool is_direct_load(const Value& value) const {
    return value.source == Value::Source::kLoad && is_direct(dtype_of(value));
  }
  static TapePlace memory(int operand) { return {Kind::kMemory, operand}; }

  /// The place of a value that needs no further instructions.
  TapePlace ready(int index) {
    const Value& here = value(index);
    if (here.source == Value::Source::kConstant) return place_of_constant(index);
    if (here.source == Value::Source::kLoad && here.is_wide && here.place.kind == Kind::kNone) {
      HR_CHECK(is_direct(dtype_of(here)));
      return memory(here.access);
    }
    return here.place;
  }

  void write_phase(int phase) {
    tape_.phases.emplace_back();
    phase_ = phase;
    known_.clear();
    std::vector<TapeInstruction>& narrow = tape_.phases.back().narrow;
    for (std::size_t i = 0; i < values_.size(); ++i)
      if (!values_[i].is_wide && values_[i].readers > 0 && values_[i].level == phase) write_narrow(narrow, values_[i]);
    for (std::size_t r = 0; r < results_.size(); ++r)
      if (!is_wide_result(r) && value(results_[r]).level == phase)
        narrow.push_back(
            {.what = Do::kStoreNarrow, .x = {ready(results_[r])}, .y = memory(static_cast<int>(loads() + r))});

    for (std::size_t i = 0; i < values_.size(); ++i)
      if (is_reduction(values_[i].what) && values_[i].source == Value::Source::kComputed && values_[i].readers > 0 &&
          values_[i].level == phase + 1)
        write_reduction(values_[i]);
    for (std::size_t i = 0; i < values_.size(); ++i)
      if (values_[i].is_kept && *values_[i].needed.begin() == phase) wide(static_cast<int>(i));
    for (std::size_t r = results_.size(); r-- > 0;)  // the first is last: it may overwrite an operand
      if (is_wide_result(r) && value(results_[r]).level == phase && !is_stored_[r]) write_store(r);
  }
  [[nodiscard]] bool is_wide_result(std::size_t result) const {
    return bound_.walk.columns.strides[loads() + result] != 0;
  }

  void write_narrow(std::vector<TapeInstruction>& to, Value& here) {
    if (here.source == Value::Source::kConstant || is_reduction_of(here)) return;
    here.place = fresh(Kind::kNarrow);
    if (here.source == Value::Source::kLoad) {
      to.push_back({.what = Do::kSpread, .x = {memory(here.access)}, .y = here.place});
      return;
    }
    TapeInstruction instruction = instruction_of(here);
    for (std::size_t k = 0; k < kMostTapeArguments; ++k)
      if (here.args[k] >= 0) instruction.x[k] = ready(here.args[k]);
    instruction.y = here.place;
    to.push_back(instruction);
  }
  static bool is_reduction_of(const Value& value) {
    return value.source == Value::Source::kComputed && is_reduction(value.what);
  }

  std::vector<TapeInstruction>& instructions() { return tape_.phases.back().wide; }

  void write_reduction(Value& here) {
    here.place = fresh(Kind::kNarrow);
    Value& of = value(here.args[0]);
    const bool is_first = !of.is_kept || *of.needed.begin() == phase_;
    if (here.what == Do::kSum && of.what == Do::kExpBelow && of.source == Value::Source::kComputed && is_first &&
        !known_.contains(here.args[0])) {
      TapeInstruction instruction = computed(of);
      if (of.readers > 1) {
        of.place = instruction.y = fresh(of.is_kept ? Kind::kRow : Kind::kPlane);
        known_.emplace(here.args[0], of.place);
      }
      instruction.reduced = here.place;
      instructions().push_back(instruction);
      return;
    }
    const bool is_of_one = here.what != Do::kSumProduct || here.args[0] == here.args[1];
    const bool is_joined = (is_joint(of) && here.what != Do::kSumSquares && here.what != Do::kMin) ||
                           (has_peak(of) && here.what == Do::kPeak);
    if (is_of_one && is_joined && is_first && !known_.contains(here.args[0])) return write_joint(here, of);
    TapeInstruction instruction = computed(here);
    instruction.reduced = here.place;
    instructions().push_back(instruction);
  }

  [[nodiscard]] static bool is_sum_of_products(const Value& of) {
    return of.source == Value::Source::kComputed && of.what == Do::kSumOfProducts && !of.is_shared;
  }
  [[nodiscard]] static bool is_joint(const Value& of) {
    if (of.source != Value::Source::kComputed || of.is_shared || !of.is_wide) return false;
    return of.what == Do::kNormalize || (of.what == Do::kFormula && (of.op == Op::kAdd || of.op == Op::kGateResidual));
  }

  /// Whether the peak of an activation is reduced in the loop that computes it: if both are for a quantizer.
  [[nodiscard]] static bool has_peak(const Value& of) {
    if (of.source != Value::Source::kComputed || of.is_shared || !of.is_wide || !of.is_coarse) return false;
    return of.what == Do::kActivationOfSum || (of.what == Do::kFormula && is_activation(of.op));
  }

  /// A value, its reduction, and the result that stores it, in one instruction.
  void write_joint(Value& reduction, Value& of) {
    const int index = reduction.args[0];
    TapeInstruction instruction = computed(of);
    instruction.y = fresh(of.is_kept ? Kind::kRow : Kind::kPlane);
    if (of.is_kept) of.place = instruction.y;
    known_.emplace(index, instruction.y);
    instruction.reduced = reduction.place;
    instruction.join = reduction.what;
    for (std::size_t r = 0; r < results_.size(); ++r) {
      const bool is_free = is_joint(of) && (r > 0 || is_only_reader(index));
      if (results_[r] != index || of.level != phase_ || !is_direct(bound_.results[r]) || !is_free) continue;
      instruction.also = memory(static_cast<int>(loads() + r));
      is_stored_[r] = true;
      break;
    }
    instructions().push_back(instruction);
  }

  /// Whether nothing else in this phase reads this row-dependent operand, so that a result may overwrite it.
  [[nodiscard]] bool is_only_reader(int index) const {
    return std::ranges::none_of(values_, [&](const Value& reader) {
      if (&reader == &values_[at(index)] || reader.readers == 0 || reader.source != Value::Source::kComputed)
        return false;
      return std::ranges::any_of(reader.args, [&](int arg) {
        return arg >= 0 && values_[at(arg)].source == Value::Source::kLoad && values_[at(arg)].is_wide &&
               !values_[at(arg)].is_shared && values_[at(arg)].needed.contains(phase_);
      });
    });
  }

  /// The instruction for a wide value or a reduction; its operands' instructions are emitted first.
  TapeInstruction computed(const Value& here) {
    TapeInstruction instruction = instruction_of(here);
    const Arguments args = here.args;
    for (std::size_t k = 0; k < kMostTapeArguments; ++k)
      if (args[k] >= 0) instruction.x[k] = wide(args[k]);
    put_repeated_last(instruction);
    return instruction;
  }

  /// Orders commutative operands so that those with one element for all columns come last: they are read once per
  /// row.
  static void put_repeated_last(TapeInstruction& instruction) {
    const auto varies = [](const TapePlace& place) {
      return place.kind != Kind::kNarrow && place.kind != Kind::kConstant;
    };
    const bool is_binary =
        instruction.what == Do::kFormula && (instruction.op == Op::kAdd || instruction.op == Op::kMul);
    const bool is_joint = instruction.what == Do::kFormula && instruction.op == Op::kGateResidual;
    const auto begin = instruction.x.begin();
    if (is_binary) std::stable_partition(begin, begin + 2, varies);
    if (is_joint) std::stable_partition(begin + 1, begin + 3, varies);
    if (instruction.what == Do::kProduct) std::stable_partition(begin, begin + 3, varies);
    if (instruction.what != Do::kSumOfProducts) return;
    std::stable_partition(begin, begin + 2, varies);
    std::stable_partition(begin + 2, begin + 4, varies);
    if (!varies(instruction.x[0]) || varies(instruction.x[1]) || !varies(instruction.x[2]) || varies(instruction.x[3]))
      return;
    instruction.what = Do::kWeightedSum;
    std::swap(instruction.x[1], instruction.x[2]);
  }

  /// The place of a value in this phase.
  TapePlace wide(int index) {
    const Value& here = value(index);
    if (!here.is_wide || (here.is_shared && here.place.kind != Kind::kNone)) return ready(index);
    if (here.source == Value::Source::kLoad && is_direct(dtype_of(here))) return memory(here.access);
    if (here.is_kept && *here.needed.begin() < phase_) return here.place;
    if (const auto known = known_.find(index); known != known_.end()) return known->second;
    TapeInstruction instruction = here.source == Value::Source::kLoad
                                      ? TapeInstruction{.what = Do::kConvert, .x = {memory(here.access)}}
                                      : computed(here);
    instruction.y = fresh(here.is_kept ? Kind::kRow : Kind::kPlane);
    value(index).place = here.is_kept ? instruction.y : TapePlace{};
    known_.emplace(index, instruction.y);
    instructions().push_back(instruction);
    return instruction.y;
  }

  void write_store(std::size_t result) {
    const int step = results_[result];
    const Value& here = value(step);
    const TapePlace to = memory(static_cast<int>(loads() + result));
    const bool is_last_step = here.is_wide && here.source == Value::Source::kComputed && here.readers == 1 &&
                              !here.is_shared && !here.is_kept;
    TapeInstruction instruction{.what = Do::kStore};
    const bool is_fresh = here.is_wide && !known_.contains(step) && !(here.is_kept && *here.needed.begin() < phase_);
    if (is_last_step && is_direct(bound_.results[result])) {
      instruction = computed(here);
    } else if (is_fresh && is_direct(bound_.results[result]) && (is_joint(here) || is_sum_of_products(here))) {
      instruction = computed(here);
      instruction.y = fresh(here.is_kept ? Kind::kRow : Kind::kPlane);
      if (here.is_kept) value(step).place = instruction.y;
      known_.emplace(step, instruction.y);
      instruction.also = to;
      instructions().push_back(instruction);
      return;
    } else if (is_last_step && here.what == Do::kFormula && here.op == Op::kGateResidual &&
               size_of(bound_.results[result]) == 1) {
      instruction = computed(here);
    } else if (is_last_step && here.what == Do::kQuantize && size_of(bound_.results[result]) == 1) {
      instruction = computed(here);
      instruction.what = Do::kStoreQuantized;
    } else {
      instruction.x[0] = wide(step);
    }
    instruction.y = to;
    instructions().push_back(instruction);
  }

  // Sizes, and places that values reuse.

  void choose_sizes() {
    const std::int64_t blocks = divide_up(tape_.columns, tape_.planes == 0 ? kMostWithout : kMostBlock);
    tape_.block = blocks == 1 ? tape_.columns : (divide_up(tape_.columns, blocks) + 63) / 64 * 64;
    tape_.rows = tape_.is_cut
                     ? 1
                     : std::clamp<std::int64_t>(kMostBlock / std::max<std::int64_t>(1, tape_.columns), 1, kMostRows);
    if (!tape_.walk.outer.empty()) tape_.rows = std::min(tape_.rows, tape_.walk.outer.back().extent);
  }

  void assign_places() {
    std::vector<std::pair<TapeInstruction*, int>> all;  // of all phases, and the phase
    for (std::size_t phase = 0; phase < tape_.phases.size(); ++phase)
      for (TapeInstruction& instruction : tape_.phases[phase].wide)
        all.emplace_back(&instruction, static_cast<int>(phase));
    tape_.planes = assign(all, Kind::kPlane);
    tape_.kept_rows = assign(all, Kind::kRow);
    tape_.shared_rows = next_[static_cast<std::size_t>(Kind::kShared)];
    tape_.narrow = next_[static_cast<std::size_t>(Kind::kNarrow)];
  }

  /// Assigns planes. An instruction may overwrite an operand that it is the last to read, element by element; a
  /// rotation reads its tables at other indices.
  static int assign(const std::vector<std::pair<TapeInstruction*, int>>& all, Kind kind) {
    std::map<int, std::size_t> last;
    for (std::size_t i = 0; i < all.size(); ++i) {
      for (const TapePlace& place : all[i].first->x)
        if (place.kind == kind) last[place.index] = i;
      if (all[i].first->y.kind == kind) last.try_emplace(all[i].first->y.index, i);
    }
    std::map<int, int> given;
    std::set<int> free;
    int count = 0;
    for (std::size_t i = 0; i < all.size(); ++i) {
      TapeInstruction& here = *all[i].first;
      std::set<int> ends;
      for (TapePlace& place : here.x) {
        if (place.kind != kind) continue;
        if (last[place.index] == i) ends.insert(given.at(place.index));
        place.index = given.at(place.index);
      }
      if (here.what != Do::kRotate) free.merge(ends);
      if (here.y.kind == kind) {
        const int own = here.y.index;
        here.y.index = free.empty() ? count++ : *free.begin();
        free.erase(here.y.index);
        given[own] = here.y.index;
        if (last[own] == i) ends.insert(here.y.index);
      }
      free.merge(ends);
    }
    return count;
  }

  void list_streams() {
    for (const Value& load : values_)
      if (load.source == Value::Source::kLoad && load.readers > 0 && load.is_wide && !load.is_shared)
        tape_.streams.push_back(load.access);
  }

  const BoundProgram& bound_;
  RowTape tape_;
  std::vector<Value> values_;
  std::vector<int> uses_;     // by the program's steps: steps and results that read it
  std::vector<int> step_of_;  // by the program's steps
  std::vector<int> results_;
  std::vector<bool> is_stored_;  // by result: stored by the instruction that computes it
  int last_ = 0;                 // phase
  int phase_ = 0;                // being emitted
  std::map<int, TapePlace> known_;
  std::array<int, 7> next_{};  // by kind
};

}  // namespace

std::int64_t RowTape::scratch_elements() const {
  return rows * (planes * block_pitch() + kept_rows * row_pitch() + narrow * kTapeLanes) + shared_rows * row_pitch();
}

int operations_of(const TapeInstruction& instruction) {
  switch (instruction.what) {
    case Do::kActivationOfSum:
    case Do::kGated:
      return instruction.is_coarse ? 16 : 22;
    case Do::kExpBelow:
      return instruction.is_coarse ? 9 : 15;
    case Do::kStoreQuantized:
      return 11;
    case Do::kNormalize:
      return 6;
    case Do::kFormula:
      if (is_activation(instruction.op)) return instruction.is_coarse ? 16 : 22;
      return instruction.op == Op::kDiv || instruction.op == Op::kSqrt ? 10 : 3;
    default:
      return 3;
  }
}

RowTape tape_of(const BoundProgram& bound) { return TapeWriter(bound).run(); }

}  // namespace headroom
