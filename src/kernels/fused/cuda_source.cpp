#include "kernels/fused/cuda_source.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <iterator>
#include <set>
#include <string_view>

#include "base/divide_up.hpp"
#include "base/error.hpp"
#include "ir/op.hpp"

namespace headroom::cuda {
namespace {

using Do = RowProgram::Do;
using Step = RowProgram::Step;

#define HR_DEVICE_CODE(...) #__VA_ARGS__
constexpr std::string_view kMath =
#include "kernels/cuda/math_inl.cuh"
    ;
constexpr std::string_view kPrelude =
#include "kernels/fused/cuda_prelude_inl.cuh"
    ;
#undef HR_DEVICE_CODE

/// Code with a line for each statement, so that what a compiler says of it can be read.
std::string in_lines(std::string_view code) {
  std::string lines;
  bool is_quoted = false;
  for (const char letter : code) {
    lines += letter;
    is_quoted ^= letter == '"';
    if (is_quoted) continue;
    if (letter == ';' || letter == '{' || letter == '}') lines += '\n';
  }
  return lines;
}

/// The formula of an op as text.
std::string_view formula_of(Op op) {
  switch (op) {
#define HR_ANY(enumerator, name, flops, formula, ...) \
  case Op::enumerator:                                \
    return #formula;
#include "ir/elementwise.def"
    default:
      HR_CHECK(false);
  }
}

/// The dtype's struct in the prelude.
std::string_view type_of(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return "F32";
    case DType::kBF16:
      return "Bf16";
    case DType::kF16:
      return "F16";
    case DType::kF8E4M3:
      return "F8E4M3";
    case DType::kI8:
      return "I8";
    default:
      return "U8";  // bool too
  }
}

std::string_view reduction_of(Do what) {
  switch (what) {
    case Do::kMax:
      return "Max";
    case Do::kMin:
      return "Min";
    case Do::kPeak:
      return "Peak";
    default:
      return "Sum";
  }
}

std::string number(double value) {
  if (!std::isfinite(value))
    return fmt::format("__uint_as_float(0x{:08X}U)", std::bit_cast<std::uint32_t>(static_cast<float>(value)));
  return fmt::format("{:.9e}F", static_cast<float>(value));
}

constexpr int kWarp = 32;
constexpr int kMostThreads = 1024;
constexpr int kFlatThreads = 256;
constexpr int kMostPacks = 16;

std::size_t at(int index) { return static_cast<std::size_t>(index); }

/// Whether the first result may lie where a load's operand does (Kernel::may_overwrite), which is then read before that is
/// written. To all other operands nothing writes.
bool may_be_written(const BoundProgram& bound, int access) {
  return bound.loads[at(access)] == bound.results[0] &&
         bound.program.loads[at(access)].axes == bound.program.results[0].axes;
}

/// What of a program is computed when. Phases end in reductions, whose results the next one reads; what is wide is computed in the
/// phase that needs it first, and kept for others, or computed again in each.
class Phases {
 public:
  Phases(const BoundProgram& bound, bool is_reread)
      : steps_(bound.program.steps), level_(steps_.size(), 0), is_wide_(steps_.size()), needed_(steps_.size()) {
    for (std::size_t i = 0; i < steps_.size(); ++i) find_level(i, bound);
    for (const RowProgram::Result& result : bound.program.results)
      needed_[at(result.step)].insert(is_reread ? last_ : level_[at(result.step)]);
    is_kept_.assign(steps_.size(), false);
    const int first_stored = is_reread ? last_ : level_[at(bound.program.results[0].step)];
    for (std::size_t i = steps_.size(); i-- > 0;) {
      if (steps_[i].what == Do::kLoad && may_be_written(bound, steps_[i].access) && *needed_[i].begin() > first_stored)
        needed_[i].insert(first_stored);
      is_kept_[i] = is_wide_[i] && !is_reread && needed_[i].size() > 1 && !is_cheap(steps_[i]);
      for (const int arg : steps_[i].args) {
        if (arg < 0) continue;
        std::set<int>& needed = needed_[at(arg)];
        if (!is_wide_[i])
          needed.insert(is_reduction(steps_[i].what) ? level_[i] - 1 : level_[i]);
        else if (is_kept_[i])
          needed.insert(*needed_[i].begin());
        else
          needed.insert(needed_[i].begin(), needed_[i].end());
      }
    }
  }

  /// The last phase.
  [[nodiscard]] int last() const { return last_; }
  /// The first phase in which it could be computed.
  [[nodiscard]] int level(int step) const { return level_[at(step)]; }
  [[nodiscard]] bool is_wide(int step) const { return is_wide_[at(step)]; }
  /// Whether a thread keeps it from one phase to others: of a load what was read, else floats.
  [[nodiscard]] bool is_kept(int step) const { return is_kept_[at(step)]; }
  /// The phase that computes it, or the first of those.
  [[nodiscard]] int first(int step) const { return *needed_[at(step)].begin(); }

 private:
  void find_level(std::size_t i, const BoundProgram& bound) {
    const Step& step = steps_[i];
    if (step.what == Do::kLoad) is_wide_[i] = bound.walk.columns.strides[at(step.access)] != 0;
    for (const int arg : step.args) {
      if (arg < 0) continue;
      level_[i] = std::max(level_[i], level_[at(arg)] + (is_reduction(step.what) ? 1 : 0));
      is_wide_[i] = (is_wide_[i] || is_wide_[at(arg)]) && !is_reduction(step.what);
    }
    last_ = std::max(last_, level_[i]);
  }

  /// Whether to compute it again is cheaper than to keep it: one addition or multiplication of one wide value.
  [[nodiscard]] bool is_cheap(const Step& step) const {
    if (step.what != Do::kFormula) return false;
    const bool is_simple = step.op == Op::kAdd || step.op == Op::kSub || step.op == Op::kMul ||
                           step.op == Op::kAddScalar || step.op == Op::kMulScalar;
    return is_simple && 1 == std::ranges::count_if(step.args, [&](int arg) { return arg >= 0 && is_wide_[at(arg)]; });
  }

  const std::vector<Step>& steps_;
  std::vector<int> level_;
  std::vector<bool> is_wide_, is_kept_;
  std::vector<std::set<int>> needed_;  // phases
  int last_ = 0;
};

/// Writes the source of one kernel.
class Writer {
 public:
  Writer(const BoundProgram& bound, const RowShape& shape)
      : bound_(bound),
        program_(bound.program),
        shape_(shape),
        phases_(bound, shape.is_reread),
        rows_(bound.walk.rows()),
        packs_of_row_(bound.walk.columns.extent / shape.width) {}

  KernelSource run() {
    put("{}\n{}\n", in_lines(kMath), in_lines(kPrelude));
    write_formulas();
    const std::int64_t blocks = program_.needs_rows ? divide_up(rows_, std::int64_t{shape_.rows_of_block})
                                                    : divide_up(rows_ * packs_of_row_, flat_packs());
    const unsigned threads = static_cast<unsigned>(shape_.threads * shape_.rows_of_block);
    put("extern \"C\" __global__ void __launch_bounds__({}) kernel({}) {{\n", threads, parameters());
    // Sums are of several parts, so that one addition need not wait for the other.
    put("constexpr int W = {}, T = {}, N = {}, S = {};\n", shape_.width, shape_.threads, shape_.packs,
        std::min(shape_.width, 4));
    if (program_.needs_rows)
      write_rows();
    else
      write_flat();
    put("}}\n");
    return {.text = std::move(text_), .blocks = blocks, .threads = threads};
  }

 private:
  template <class... Arguments>
  void put(fmt::format_string<Arguments...> form, Arguments&&... arguments) {
    fmt::format_to(std::back_inserter(text_), form, std::forward<Arguments>(arguments)...);
  }

  [[nodiscard]] const Step& step_at(int step) const { return program_.steps[at(step)]; }
  [[nodiscard]] std::int64_t flat_packs() const { return std::int64_t{shape_.threads} * shape_.packs; }
  [[nodiscard]] std::size_t operands() const { return program_.loads.size() + program_.results.size(); }
  [[nodiscard]] DType dtype(std::size_t operand) const {
    return operand < program_.loads.size() ? bound_.loads[operand] : bound_.results[operand - program_.loads.size()];
  }
  /// Columns of a load that a pack takes.
  [[nodiscard]] int width_of(int access) const {
    return program_.loads[at(access)].is_halved ? shape_.width / 2 : shape_.width;
  }

  /// Of operands that nothing writes to the compiler is told.
  [[nodiscard]] std::string parameters() const {
    std::vector<std::string> names;
    for (std::size_t k = 0; k < program_.loads.size(); ++k)
      names.push_back(
          fmt::format("const u8* {}p{}", may_be_written(bound_, static_cast<int>(k)) ? "" : "__restrict__ ", k));
    for (std::size_t k = program_.loads.size(); k < operands(); ++k) names.push_back(fmt::format("u8* p{}", k));
    return fmt::format("{}", fmt::join(names, ", "));
  }

  void write_formulas() {
    std::set<Op> written;
    for (const Step& step : program_.steps)
      if (step.what == Do::kFormula && written.insert(step.op).second)
        put("__device__ __forceinline__ float do_{}(float a, float b, float c) {{ constexpr Math m{{}}; return {}; "
            "}}\n",
            name_of(step.op), formula_of(step.op));
  }

  /// Declares a0, a1, ...: where row `row` begins in each operand.
  void write_row_addresses(std::string_view row) {
    const std::vector<RowWalk::Axis>& outer = bound_.walk.outer;
    const std::string_view index = rows_ <= INT32_MAX ? "u32" : "i64";
    put("{} rest = static_cast<{}>({});\n", index, index, row);
    for (std::size_t axis = outer.size(); axis-- > 0;) {
      if (axis == 0) {
        put("const i64 i0 = rest;\n");
      } else {
        put("const i64 i{} = rest % {}; rest /= {};\n", axis, outer[axis].extent, outer[axis].extent);
      }
    }
    for (std::size_t k = 0; k < operands(); ++k) {
      std::vector<std::string> terms;
      for (std::size_t axis = 0; axis < outer.size(); ++axis)
        if (outer[axis].strides[k] != 0)
          terms.push_back(
              fmt::format("i{} * {}", axis, outer[axis].strides[k] * static_cast<std::int64_t>(size_of(dtype(k)))));
      const std::string_view constness = k < program_.loads.size() ? "const " : "";
      put("{}u8* const a{} = p{}{}{};\n", constness, k, k, terms.empty() ? "" : " + ", fmt::join(terms, " + "));
    }
  }

  // A kernel of rows.

  void write_rows() {
    put("const int lane = static_cast<int>(threadIdx.x) % T;\n");
    put("const i64 row = static_cast<i64>(blockIdx.x) * {} + static_cast<int>(threadIdx.x) / T;\n",
        shape_.rows_of_block);
    if (shape_.threads < kWarp) {  // all lanes of a warp meet in shuffles, also those without a row
      put("const bool exists = row < {};\n", rows_);
      write_row_addresses(fmt::format("(exists ? row : {})", rows_ - 1));
    } else {
      put("if (row >= {}) return;\n", rows_);
      write_row_addresses("row");
    }
    for (int step = 0; step < step_count(); ++step) {
      const Step& what = step_at(step);
      if (!phases_.is_kept(step)) continue;
      if (what.what == Do::kLoad)
        put("Raw<{}::kBytes * {}> r{}[N];\n", type_of(bound_.loads[at(what.access)]), width_of(what.access), step);
      else
        put("float k{}[N][W];\n", step);
    }
    for (int phase = 0; phase <= phases_.last(); ++phase) write_phase(phase);
    write_narrow_results();
  }

  [[nodiscard]] int step_count() const { return static_cast<int>(program_.steps.size()); }

  void write_phase(int phase) {
    for (int step = 0; step < step_count(); ++step)  // what has one value for the row
      if (!phases_.is_wide(step) && phases_.level(step) == phase) write_narrow(step);
    std::vector<int> reductions, stores;
    for (int step = 0; step < step_count(); ++step)
      if (is_reduction(step_at(step).what) && phases_.level(step) == phase + 1) reductions.push_back(step);
    for (int i = 0; i < static_cast<int>(program_.results.size()); ++i)
      if (phase == phase_of_store(i) && is_wide_result(i)) stores.push_back(i);
    std::vector<int> computed;  // kept for later phases alone
    for (int step = 0; step < step_count(); ++step)
      if (phases_.is_kept(step) && step_at(step).what != Do::kLoad && phases_.first(step) == phase)
        computed.push_back(step);
    if (reductions.empty() && stores.empty() && computed.empty()) return;

    for (const int step : reductions)
      put("float s{}[S]; for (int i = 0; i < S; ++i) s{}[i] = {}::neutral();\n", step, step,
          reduction_of(step_at(step).what));
    if (!shape_.is_reread) write_reads(phase, reductions, stores, computed);
    write_pack_loop();
    known_.clear();
    for (const int step : computed) write_wide(step, phase);
    for (const int step : reductions) {
      const int x = step_at(step).args[0];
      write_wide(x, phase);
      put("for (int i = 0; i < W; ++i) s{}[i % S] = {}::join(s{}[i % S], {});\n", step,
          reduction_of(step_at(step).what), step, element(x));
    }
    for (const int i : stores) write_wide(program_.results[at(i)].step, phase);
    for (const int i : stores) write_store(i);  // when all is read: the first may lie over an operand
    put("}}\n");
    for (const int step : reductions) write_join(step);
  }

  void write_pack_loop() {
    if (shape_.is_reread) {
      put("for (int pack = lane; pack < {}; pack += T) {{\n", packs_of_row_);
      return;
    }
    put("_Pragma(\"unroll\") for (int p = 0; p < N; ++p) {{\nconst int pack = lane + p * T;\n");
    if (packs_of_row_ % shape_.threads != 0 || packs_of_row_ / shape_.threads != shape_.packs)
      put("if (pack >= {}) continue;\n", packs_of_row_);
  }

  /// Reads all that a phase is the first to need before it looks at any of it, so that the reads are under way together.
  void write_reads(int phase, const std::vector<int>& reductions, const std::vector<int>& stores,
                   const std::vector<int>& computed) {
    std::set<int> needed;
    const auto need = [&](auto& self, int step) -> void {
      if (!phases_.is_wide(step)) return;
      const Step& what = step_at(step);
      if (what.what == Do::kLoad) {
        if (!phases_.is_kept(step)) needed.insert(step);
        return;
      }
      if (phases_.is_kept(step) && phases_.first(step) < phase) return;
      for (const int arg : what.args)
        if (arg >= 0) self(self, arg);
    };
    for (const int step : reductions) need(need, step_at(step).args[0]);
    for (const int i : stores) need(need, program_.results[at(i)].step);
    for (const int step : computed) need(need, step);
    for (int step = 0; step < step_count(); ++step)
      if (step_at(step).what == Do::kLoad && phases_.is_kept(step) && phases_.first(step) == phase) needed.insert(step);
    in_time_.clear();
    for (const int step : needed) {
      // Later phases read vectors that stand beside all rows, and lie in cache: a pack at a time.
      if (phase > 0 && !phases_.is_kept(step)) continue;
      in_time_.insert(step);
      const int access = step_at(step).access;
      if (!phases_.is_kept(step))
        put("Raw<{}::kBytes * {}> r{}[N];\n", type_of(bound_.loads[at(access)]), width_of(access), step);
    }
    if (in_time_.empty()) return;
    write_pack_loop();
    for (const int step : in_time_) put("{}\n", read(step, fmt::format("r{}[p]", step)));
    put("}}\n");
  }

  [[nodiscard]] std::string read(int load, std::string_view raw) const {
    const int access = step_at(load).access;
    const std::string_view type = type_of(bound_.loads[at(access)]);
    return fmt::format("read(static_cast<Raw<{}::kBytes * {}>&>({}), a{} + pack * ({} * {}::kBytes));", type,
                       width_of(access), raw, access, width_of(access), type);
  }

  /// Element i of a value in the loop over packs.
  [[nodiscard]] std::string element(int step, std::string_view index = "i") const {
    if (!phases_.is_wide(step)) return fmt::format("v{}", step);
    const bool is_kept_float = phases_.is_kept(step) && step_at(step).what != Do::kLoad;
    if (program_.needs_rows && is_kept_float) return fmt::format("k{}[p][{}]", step, index);
    return fmt::format("v{}[{}]", step, index);
  }

  /// Makes a wide value known in the loop over packs.
  void write_wide(int step, int phase) {
    if (!phases_.is_wide(step) || !known_.insert(step).second) return;
    const Step& what = step_at(step);
    const bool is_kept_float = program_.needs_rows && phases_.is_kept(step) && what.what != Do::kLoad;
    if (is_kept_float && phases_.first(step) < phase) return;
    if (what.what == Do::kLoad) return write_load(step);
    for (const int arg : what.args)
      if (arg >= 0) write_wide(arg, phase);
    if (!is_kept_float) put("float v{}[W];\n", step);
    if (what.what == Do::kRotate) {
      const auto part = [&](int k, std::string_view index) { return element(what.args[at(k)], index); };
      put("for (int i = 0; i < W; i += 2) {{ const float x0 = {}, x1 = {}, c = {}, s = {}; {} = x0 * c - x1 * s; "
          "{} = x1 * c + x0 * s; }}\n",
          part(0, "i"), part(0, "i + 1"), part(1, "i / 2"), part(2, "i / 2"), element(step), element(step, "i + 1"));
      return;
    }
    put("for (int i = 0; i < W; ++i) {} = {};\n", element(step), expression(step));
  }

  void write_load(int step) {
    const int access = step_at(step).access;
    const std::string_view type = type_of(bound_.loads[at(access)]);
    std::string raw = fmt::format("r{}[p]", step);
    if (!in_time_.contains(step) && !(phases_.is_kept(step) && program_.needs_rows)) {
      raw = fmt::format("w{}", step);
      put("Raw<{}::kBytes * {}> {}; {}\n", type, width_of(access), raw, read(step, raw));
    }
    put("float v{}[{}]; expand<{}, {}>({}, v{});\n", step, width_of(access), type, width_of(access), raw, step);
  }

  /// What a step is, of elements of its operands.
  [[nodiscard]] std::string expression(int step) const {
    const Step& what = step_at(step);
    const auto arg = [&](std::size_t k) { return element(what.args[k]); };
    switch (what.what) {
      case Do::kConstant:
        return number(what.numbers[0]);
      case Do::kSelect:
        return fmt::format("{} != 0.0F ? {} : {}", arg(0), arg(1), arg(2));
      case Do::kRound:
        return fmt::format("{}::rounded({})", type_of(what.dtype), arg(0));
      case Do::kScale:
        return fmt::format("scale_of({}, {})", arg(0), number(what.numbers[0]));
      case Do::kInverse:
        return fmt::format("inverse_of({}, {})", arg(0), number(what.numbers[0]));
      case Do::kQuantize:
        return fmt::format("quantized({}, {})", arg(0), arg(1));
      default: {
        std::vector<std::string> args;
        for (std::size_t k = 0; k < 3; ++k)
          if (what.args[k] >= 0) args.push_back(arg(k));
        for (std::size_t k = 0; args.size() < 3; ++k) args.push_back(k < 2 ? number(what.numbers[k]) : "0.0F");
        return fmt::format("do_{}({})", name_of(what.op), fmt::join(args, ", "));
      }
    }
  }

  /// A value of the whole row, before the loop over packs.
  void write_narrow(int step) {
    const Step& what = step_at(step);
    if (is_reduction(what.what)) return;  // joined behind its loop
    if (what.what == Do::kLoad) {
      const std::string_view type = type_of(bound_.loads[at(what.access)]);
      put("float v{}; {{ Raw<{}::kBytes> raw; float one[1]; read(raw, a{}); expand<{}, 1>(raw, one); v{} = one[0]; "
          "}}\n",
          step, type, what.access, type, step);
      return;
    }
    put("const float v{} = {};\n", step, expression(step));
  }

  void write_join(int step) {
    if (shape_.threads > kWarp) put("__shared__ float partial{}[{}];\n", step, shape_.threads / kWarp);
    const std::string_view how = reduction_of(step_at(step).what);
    put("for (int i = 1; i < S; ++i) s{}[0] = {}::join(s{}[0], s{}[i]);\n", step, how, step, step);
    put("const float v{} = join_row<{}, T>(s{}[0], {});\n", step, how, step,
        shape_.threads > kWarp ? fmt::format("partial{}", step) : "nullptr");
  }

  [[nodiscard]] int phase_of_store(int result) const {
    return shape_.is_reread ? phases_.last() : phases_.level(program_.results[at(result)].step);
  }
  /// Whether a result has an element for each column.
  [[nodiscard]] bool is_wide_result(int result) const {
    return bound_.walk.columns.strides[program_.loads.size() + at(result)] != 0;
  }

  void write_store(int result) {
    const int step = program_.results[at(result)].step;
    const std::string_view type = type_of(bound_.results[at(result)]);
    put("{}{{ float y[W]; for (int i = 0; i < W; ++i) y[i] = {}; store<{}, W>(y, a{} + pack * (W * {}::kBytes)); }}\n",
        program_.needs_rows && shape_.threads < kWarp ? "if (exists) " : "", element(step), type,
        program_.loads.size() + at(result), type);
  }

  /// What a row has one of.
  void write_narrow_results() {
    for (int i = 0; i < static_cast<int>(program_.results.size()); ++i) {
      if (is_wide_result(i)) continue;
      const std::string_view type = type_of(bound_.results[at(i)]);
      put("if (lane == 0{}) {{ const float y[1] = {{v{}}}; store<{}, 1>(y, a{}); }}\n",
          shape_.threads < kWarp ? " && exists" : "", program_.results[at(i)].step, type,
          program_.loads.size() + at(i));
    }
  }

  // A kernel without rows: packs one behind the other.

  void write_flat() {
    const std::int64_t total = rows_ * packs_of_row_;
    const std::string_view index = total <= INT32_MAX - flat_packs() ? "u32" : "i64";
    put("const {} first = static_cast<{}>(blockIdx.x) * {} + threadIdx.x;\n", index, index, flat_packs());
    for (int step = 0; step < step_count(); ++step)
      if (step_at(step).what == Do::kLoad)
        put("Raw<{}::kBytes * {}> r{}[N];\n", type_of(bound_.loads[at(step_at(step).access)]),
            phases_.is_wide(step) ? shape_.width : 1, step);
    write_flat_loop(index, total);
    for (int step = 0; step < step_count(); ++step) {
      if (step_at(step).what != Do::kLoad) continue;
      if (phases_.is_wide(step))
        put("{}\n", read(step, fmt::format("r{}[p]", step)));
      else
        put("read(r{}[p], a{});\n", step, step_at(step).access);
    }
    put("}}\n");
    write_flat_loop(index, total);
    known_.clear();
    in_time_.clear();
    for (int step = 0; step < step_count(); ++step) {
      const Step& what = step_at(step);
      if (what.what == Do::kLoad) in_time_.insert(step);
      if (phases_.is_wide(step)) {
        write_wide(step, 0);
      } else if (what.what == Do::kLoad) {
        const std::string_view type = type_of(bound_.loads[at(what.access)]);
        put("float o{}[1]; expand<{}, 1>(r{}[p], o{}); const float v{} = o{}[0];\n", step, type, step, step, step,
            step);
      } else {
        write_narrow(step);
      }
    }
    for (int i = 0; i < static_cast<int>(program_.results.size()); ++i) write_store(i);
    put("}}\n");
  }

  void write_flat_loop(std::string_view index, std::int64_t total) {
    put("_Pragma(\"unroll\") for (int p = 0; p < N; ++p) {{\nconst {} number = first + p * T;\n", index);
    if (total % flat_packs() != 0) put("if (number >= {}) continue;\n", total);
    if (rows_ == 1) {
      put("const {} pack = number;\n", total * shape_.width <= INT32_MAX ? "int" : "i64");
      write_row_addresses("0");
    } else {
      put("const int pack = static_cast<int>(number % {});\n", packs_of_row_);
      write_row_addresses(fmt::format("(number / {})", packs_of_row_));
    }
  }

  const BoundProgram& bound_;
  const RowProgram& program_;
  RowShape shape_;
  Phases phases_;
  std::int64_t rows_;
  std::int64_t packs_of_row_;
  std::string text_;
  std::set<int> known_;    // wide values of the pack at hand
  std::set<int> in_time_;  // loads that were read before the loop over packs
};

/// Registers that a pack of a thread takes from one phase to the next, about.
int registers_of_pack(const BoundProgram& bound, int width) {
  const Phases phases(bound, false);
  int words = 0;
  for (int step = 0; step < static_cast<int>(bound.program.steps.size()); ++step) {
    const RowProgram::Step& what = bound.program.steps[at(step)];
    const bool is_first_read = what.what == Do::kLoad && phases.is_wide(step) && phases.first(step) == 0;
    if (what.what == Do::kLoad && (is_first_read || phases.is_kept(step)))
      words += static_cast<int>(
          divide_up(static_cast<std::int64_t>(size_of(bound.loads[at(what.access)])) * width, std::int64_t{4}));
    else if (phases.is_kept(step))
      words += width;
  }
  return std::max(1, words);
}

/// Whole warps for a row of so many packs, of which a thread takes at most `most`: such that none is idle, if there are.
std::int64_t threads_for(std::int64_t packs, std::int64_t most) {
  for (std::int64_t each = most; each > 0 && 2 * each > most; --each)
    if (packs % (each * kWarp) == 0) return packs / each;
  return kWarp * divide_up(divide_up(packs, most), std::int64_t{kWarp});
}

}  // namespace

int widest_pack(const BoundProgram& bound) {
  const std::size_t loads = bound.program.loads.size();
  std::size_t narrowest = 4;
  int width = 8;
  const auto fits = [&](int columns) {
    if (bound.walk.columns.extent % columns != 0) return false;
    for (std::size_t k = 0; k < bound.walk.columns.strides.size(); ++k) {
      if (bound.walk.columns.strides[k] == 0) continue;
      const int own = k < loads && bound.program.loads[k].is_halved ? columns / 2 : columns;
      for (const RowWalk::Axis& axis : bound.walk.outer)
        if (own > 1 && axis.strides[k] % own != 0) return false;
    }
    return true;
  };
  for (std::size_t k = 0; k < bound.walk.columns.strides.size(); ++k)
    if (bound.walk.columns.strides[k] != 0)
      narrowest = std::min(narrowest, size_of(k < loads ? bound.loads[k] : bound.results[k - loads]));
  if (narrowest == 4) width = 4;
  while (width > 1 && !fits(width)) width /= 2;
  return width;
}

std::vector<RowShape> row_shapes(const BoundProgram& bound, int multiprocessors) {
  const int width = widest_pack(bound);
  const std::int64_t packs = bound.walk.columns.extent / width;
  if (!bound.program.needs_rows) {
    const std::int64_t total = packs * bound.walk.rows();
    std::vector<RowShape> shapes = {{.width = width, .threads = kFlatThreads, .packs = 1}};
    constexpr std::int64_t kThreadsOfMultiprocessor = 2048;
    if (total < 2 * kThreadsOfMultiprocessor * multiprocessors) return shapes;
    for (const int each : {2, 4}) shapes.push_back({.width = width, .threads = kFlatThreads, .packs = each});
    return shapes;
  }
  constexpr int kBudget = 96;
  const auto most = static_cast<std::int64_t>(std::clamp(kBudget / registers_of_pack(bound, width), 1, kMostPacks));
  std::vector<RowShape> shapes;
  const auto add = [&](std::int64_t threads) {
    if (threads > kMostThreads || divide_up(packs, threads) > 2 * most) return;
    RowShape shape{
        .width = width, .threads = static_cast<int>(threads), .packs = static_cast<int>(divide_up(packs, threads))};
    shape.rows_of_block = threads > kWarp ? 1 : static_cast<int>(128 / threads);
    if (std::ranges::find(shapes, shape) == shapes.end()) shapes.push_back(shape);
  };
  if (packs <= kWarp) {
    add(static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(packs))));
    return shapes;
  }
  const std::int64_t wanted = threads_for(packs, most);
  if (wanted > kMostThreads) {
    shapes.push_back({.width = width, .threads = kMostThreads, .packs = 1, .rows_of_block = 1, .is_reread = true});
    return shapes;
  }
  add(wanted);
  for (const std::int64_t threads : {wanted / 2, 2 * wanted, 4 * wanted})
    if (threads >= kWarp && threads % kWarp == 0) add(threads);
  return shapes;
}

KernelSource cuda_source_of(const BoundProgram& bound, const RowShape& shape) { return Writer(bound, shape).run(); }

}  // namespace headroom::cuda
