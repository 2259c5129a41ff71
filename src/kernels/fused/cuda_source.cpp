#include "kernels/fused/cuda_source.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <numeric>
#include <set>
#include <string_view>

#include "base/tensors/divide_up.hpp"
#include "ir/op.hpp"
#include "kernels/fused/cuda_dialect.hpp"
#include "kernels/fused/cuda_phases.hpp"

namespace headroom::cuda {
namespace {

using Do = RowProgram::Do;
using Step = RowProgram::Step;

constexpr int kWarp = 32;

std::size_t at(int index) { return static_cast<std::size_t>(index); }

/// Writes the source of one kernel.
class Writer {
 public:
  Writer(const BoundProgram& bound, const RowShape& shape)
      : bound_(bound),
        program_(bound.program),
        shape_(shape),
        phases_(bound, shape.is_reread),
        rows_(bound.walk.rows() / shape.rows_of_thread),
        packs_of_row_(bound.walk.columns.extent / shape.width),
        fetched_(shape.staying > 0 ? fetched_loads(bound, shape.width) : std::set<int>()),
        common_(shape.staying > 0 ? common_steps(bound, phases_) : CommonSteps()) {}

  KernelSource run() {
    text_ = dialect::prelude();
    write_formulas();
    std::int64_t blocks = program_.needs_rows ? divide_up(rows_, std::int64_t{shape_.rows_of_block})
                                              : divide_up(rows_ * packs_of_row_, flat_packs());
    if (shape_.staying > 0) blocks = std::min(blocks, std::int64_t{shape_.staying});
    const unsigned threads = static_cast<unsigned>(shape_.threads * shape_.rows_of_block);
    put("extern \"C\" __global__ void __launch_bounds__({}{}) kernel({}) {{\n", threads,
        shape_.blocks > 0 ? fmt::format(", {}", shape_.blocks) : "", parameters());
    // The compiler may hoist reads of memory that is never written above the wait, but not above a branch that it
    // cannot predict.
    put("wait_for_previous();\nif (blockIdx.x >= gridDim.x) return;\n");
    // Sums have several partial accumulators, so that additions need not wait for each other.
    put("constexpr int W = {}, T = {}, N = {}, S = {}, R = {};\n", shape_.width, shape_.threads, shape_.packs,
        std::min(shape_.width, 4), shape_.rows_of_thread);
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

  /// Whether a thread keeps a step in registers between phases. Values prefetched to shared memory are read there
  /// again, and values common to many rows are available in all phases.
  [[nodiscard]] bool is_kept(int step) const {
    return phases_.is_kept(step) && !fetched_.contains(step) && !common_.all.contains(step);
  }
  [[nodiscard]] const Step& step_at(int step) const { return program_.steps[at(step)]; }
  [[nodiscard]] std::int64_t flat_packs() const { return std::int64_t{shape_.threads} * shape_.packs; }
  [[nodiscard]] std::size_t operands() const { return program_.loads.size() + program_.results.size(); }
  [[nodiscard]] DType dtype(std::size_t operand) const {
    return operand < program_.loads.size() ? bound_.loads[operand] : bound_.results[operand - program_.loads.size()];
  }
  /// The number of columns that share an element of an operand.
  [[nodiscard]] int repeats_of(std::size_t operand) const { return bound_.walk.columns.repeats[operand]; }
  /// The number of elements of an operand in a pack.
  [[nodiscard]] int width_of(std::size_t operand) const { return std::max(1, shape_.width / repeats_of(operand)); }

  /// Operands that are never written are declared so to the compiler.
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
            name_of(step.op), dialect::formula_of(step.op));
  }

  /// Whether addresses are those of a thread's first pack, with the others at constant byte offsets from it.
  [[nodiscard]] bool has_lane_bases() const { return program_.needs_rows && !shape_.is_reread; }
  [[nodiscard]] int pack_bytes(std::size_t operand) const {
    return width_of(operand) * static_cast<int>(size_of(dtype(operand)));
  }
  /// The address of an operand's current pack.
  [[nodiscard]] std::string place_of(std::size_t operand) const {
    if (repeats_of(operand) > shape_.width)  // several packs share an element
      return fmt::format("a{} + pack / {} * {}", operand, repeats_of(operand) / shape_.width, pack_bytes(operand));
    if (has_lane_bases()) return fmt::format("a{} + p * {}", operand, shape_.threads * pack_bytes(operand));
    return fmt::format("a{} + {} * {}", operand, "pack", pack_bytes(operand));
  }

  /// The address of a row's single element of a load.
  [[nodiscard]] std::string place_of_row(int access) const {
    const RowAccess& load = program_.loads[at(access)];
    if (load.index < 0) return fmt::format("a{}", access);
    const std::string_view type = bound_.loads[at(load.index)] == DType::kI64 ? "i64" : "int";
    return fmt::format("a{} + place_in<{}>(a{}, {}) * {}", access, type, load.index, load.places,
                       size_of(bound_.loads[at(access)]));
  }

  /// The outer axes, in the order in which row numbers iterate over them, the fastest last. The rows of one thread
  /// share one number. In that case neighbouring threads do not share those rows' operands: their writes are
  /// adjacent.
  [[nodiscard]] std::vector<std::size_t> row_order() const {
    const std::vector<RowWalk::Axis>& outer = bound_.walk.outer;
    std::vector<std::size_t> order(outer.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    if (shape_.rows_of_thread == 1) return order;
    for (std::size_t k = 0; k < program_.loads.size(); ++k) {
      if (bound_.walk.columns.strides[k] == 0 || outer.back().strides[k] != 0) continue;
      const auto is_shared = [&](std::size_t axis) { return outer[axis].strides[k] == 0; };
      if (std::ranges::all_of(order, is_shared)) continue;
      std::ranges::stable_partition(order, is_shared);
      break;
    }
    return order;
  }

  /// Declares i0, i1, ...: the indices of row `row` along the outer axes; for the innermost, of the thread's first
  /// row.
  void write_row_places(std::string_view row) {
    const std::vector<RowWalk::Axis>& outer = bound_.walk.outer;
    const std::vector<std::size_t> order = row_order();
    const std::string_view index = rows_ <= INT32_MAX ? "u32" : "i64";
    put("{} rest = static_cast<{}>({});\n", index, index, row);
    for (std::size_t at = order.size(); at-- > 0;) {
      const std::size_t axis = order[at];
      const bool is_of_several = axis + 1 == outer.size() && shape_.rows_of_thread > 1;
      const std::string name = fmt::format("{}{}", is_of_several ? "begin" : "i", axis);
      const std::string times = is_of_several ? " * R" : "";
      const std::int64_t extent = outer[axis].extent / (is_of_several ? shape_.rows_of_thread : 1);
      if (at == 0)
        put("const i64 {} = rest{};\n", name, times);
      else
        put("const i64 {} = rest % {}{}; rest /= {};\n", name, extent, times, extent);
    }
  }

  /// Declares a0, a1, ...: the address where a row, or a thread's part of it, begins in each operand.
  void write_addresses(bool is_fetched = false) {
    const std::vector<RowWalk::Axis>& outer = bound_.walk.outer;
    if (shape_.rows_of_thread > 1) put("const i64 i{} = begin{} + q;\n", outer.size() - 1, outer.size() - 1);
    for (std::size_t k = 0; k < operands(); ++k) {
      if (is_fetched && place_when_fetched(k) >= 0)
        put("const u8* const a{} = fetched + (turn * {} + {}) * N + lane * 16;\n", k, fetched_.size() * threads() * 16,
            place_when_fetched(k));
      else
        write_address(k);
    }
  }
  void write_address(std::size_t k) {
    const std::vector<RowWalk::Axis>& outer = bound_.walk.outer;
    std::vector<std::string> terms;
    for (std::size_t axis = 0; axis < outer.size(); ++axis)
      if (outer[axis].strides[k] != 0)
        terms.push_back(
            fmt::format("i{} * {}", axis, outer[axis].strides[k] * static_cast<std::int64_t>(size_of(dtype(k)))));
    if (has_lane_bases() && bound_.walk.columns.strides[k] != 0 && repeats_of(k) <= shape_.width)
      terms.push_back(fmt::format("lane * {}", pack_bytes(k)));
    const std::string_view constness = k < program_.loads.size() ? "const " : "";
    put("{}u8* const a{} = p{}{}{};\n", constness, k, k, terms.empty() ? "" : " + ", fmt::join(terms, " + "));
  }

  // A kernel of rows.

  [[nodiscard]] std::size_t threads() const { return static_cast<std::size_t>(shape_.threads * shape_.rows_of_block); }

  /// The offset of an operand's packs of a row in the prefetch buffer, in bytes per pack of a thread; -1 if they are
  /// read from global memory.
  [[nodiscard]] std::int64_t place_when_fetched(std::size_t operand) const {
    std::int64_t place = 0;
    for (const int step : fetched_) {
      if (at(step_at(step).access) == operand) return place;
      place += static_cast<std::int64_t>(threads()) * 16;
    }
    return -1;
  }

  /// Persistent blocks: the packs of a thread's next rows are in flight while it works on one. A thread reads only
  /// the data that it prefetched itself, so it waits for no other. Its rows are successive, so that their common
  /// values are computed once.
  void write_rows_of_staying_blocks() {
    const std::size_t row_bytes = fetched_.size() * threads() * 16;
    put("constexpr int A = {};\n", shape_.ahead);
    put("const int lane = static_cast<int>(threadIdx.x) % T, row_of_block = static_cast<int>(threadIdx.x) / T;\n");
    put("__shared__ __align__(16) u8 all_fetched[(A + 1) * {} * N];\nu8* const fetched = all_fetched + row_of_block * "
        "T * N * "
        "16;\n",
        row_bytes);
    put("const auto fetch = [&](i64 row, int turn) {{\n");
    write_row_places("row");
    for (const int step : fetched_) {
      const auto access = at(step_at(step).access);
      put("{{ u8* const to = fetched + (turn * {} + {}) * N + lane * 16;\n", row_bytes, place_when_fetched(access));
      write_address(access);
      write_pack_loop();
      put("fetch_16_bytes(to + p * T * 16, {});\n}}\n}}\n", place_of(access));
    }
    put("}};\n");
    put("const i64 number = static_cast<i64>(blockIdx.x) * {0} + row_of_block, all = static_cast<i64>(gridDim.x) * "
        "{0};\n"
        "const i64 begin = number * {1} / all, end = (number + 1) * {1} / all;\n",
        shape_.rows_of_block, rows_);
    put("for (int i = 0; i < A; ++i) {{ if (begin + i < end) fetch(begin + i, i); end_group(); }}\n");
    for (const int step : common_.used) put("float c{}[N][W];\n", step);
    put("i64 stretch = -1;\nint turn = 0;\nfor (i64 row = begin; row < end; ++row) {{\n");
    write_row_places("row");
    write_common();
    put("if (row + A < end) fetch(row + A, turn == 0 ? A : turn - 1);\nend_group();\nwait_for_all_groups_but<A>();\n");
    write_addresses(true);
    write_phases();
    if (shape_.threads > kWarp) put("__syncthreads();\n");  // before the next row's reductions reuse the shared memory
    put("turn = turn == A ? 0 : turn + 1;\n}}\n");
  }

  /// Computes the values common to rows that differ only in the innermost outer axis, at the first of these rows.
  void write_common() {
    if (common_.used.empty()) return;
    const std::string_view index = rows_ <= INT32_MAX ? "u32" : "i64";
    put("if (const i64 of = static_cast<{}>(row) / {}; of != stretch) {{\nstretch = of;\n", index,
        bound_.walk.outer.back().extent);
    for (std::size_t k = 0; k < program_.loads.size(); ++k)
      if (bound_.walk.columns.strides[k] != 0 && bound_.walk.outer.back().strides[k] == 0) write_address(k);
    write_pack_loop();
    known_.clear();
    read_.clear();
    for (const int step : common_.used) {
      if (step_at(step).what == Do::kLoad)
        write_load(step);
      else
        for (const int arg : step_at(step).args)
          if (arg >= 0) write_wide(arg, 0);
      put("for (int i = 0; i < W; ++i) c{}[p][i] = {};\n", step,
          step_at(step).what == Do::kLoad ? fmt::format("v{}[i]", step) : expression(step));
    }
    put("}}\n}}\n");
  }

  void write_rows() {
    if (shape_.staying > 0) return write_rows_of_staying_blocks();
    put("const int lane = static_cast<int>(threadIdx.x) % T;\n");
    put("const i64 row = static_cast<i64>(blockIdx.x) * {} + static_cast<int>(threadIdx.x) / T;\n",
        shape_.rows_of_block);
    if (may_lack_rows()) {  // all lanes of a warp take part in shuffles, also those without a row
      put("const bool exists = row < {};\n", rows_);
      write_row_places(fmt::format("(exists ? row : {})", rows_ - 1));
    } else {
      if (rows_ % shape_.rows_of_block != 0) put("if (row >= {}) return;\n", rows_);
      write_row_places("row");
    }
    if (shape_.rows_of_thread > 1) write_first_reads();
    write_addresses();
    write_phases();
    if (shape_.rows_of_thread > 1) put("}}\n");
  }

  void write_phases() {
    for (int step = 0; step < step_count(); ++step) {
      if (!is_kept(step) || read_ahead_.contains(step)) continue;
      if (step_at(step).what == Do::kLoad)
        write_raw_packs(fmt::format("r{}", step), step);
      else
        put("float k{}[N][W];\n", step);
    }
    for (int phase = 0; phase <= phases_.last(); ++phase) write_phase(phase);
    write_narrow_results();
  }

  /// Declares room for the packs of a load.
  void write_raw_packs(std::string_view name, int load) {
    const int access = step_at(load).access;
    put("Raw<{}::kBytes * {}> {}[N];\n", dialect::type_of(bound_.loads[at(access)]), width_of(at(access)), name);
  }

  /// Reads the first phase's operands for all rows of a thread, and begins the loop over the rows.
  void write_first_reads() {
    read_ahead_ = reads_of(0, work_of(0));
    for (const int step : read_ahead_) write_raw_packs(fmt::format("all{}[R]", step), step);
    constexpr std::string_view kLoop = "_Pragma(\"unroll\") for (int q = 0; q < R; ++q) {\n";
    put("{}", kLoop);
    write_addresses();
    write_pack_loop();
    for (const int step : read_ahead_) put("{}\n", read(step, fmt::format("all{}[q][p]", step)));
    put("}}\n}}\n{}", kLoop);
    for (const int step : read_ahead_) put("auto& r{} = all{}[q];\n", step, step);
  }

  /// Whether there may be active threads without a row.
  [[nodiscard]] bool may_lack_rows() const { return rows_ % shape_.rows_of_block != 0 && shape_.threads < kWarp; }
  /// Whether the last pack of a thread may extend past the row's end.
  [[nodiscard]] bool has_part_of_packs() const {
    return packs_of_row_ % shape_.threads != 0 || packs_of_row_ / shape_.threads != shape_.packs;
  }

  [[nodiscard]] int step_count() const { return static_cast<int>(program_.steps.size()); }

  /// The work of a phase in its loop over packs.
  struct Work {
    std::vector<int> reductions;
    std::vector<int> stores;    ///< results
    std::vector<int> computed;  ///< kept for later phases alone
  };
  [[nodiscard]] Work work_of(int phase) const {
    Work work;
    for (int step = 0; step < step_count(); ++step)
      if (is_reduction(step_at(step).what) && phases_.level(step) == phase + 1) work.reductions.push_back(step);
    for (int i = 0; i < static_cast<int>(program_.results.size()); ++i)
      if (phase == phase_of_store(i) && is_wide_result(i)) work.stores.push_back(i);
    for (int step = 0; step < step_count(); ++step)
      if (is_kept(step) && step_at(step).what != Do::kLoad && phases_.first(step) == phase)
        work.computed.push_back(step);
    return work;
  }

  void write_phase(int phase) {
    for (int step = 0; step < step_count(); ++step)  // steps with one value per row
      if (!phases_.is_wide(step) && phases_.level(step) == phase && !is_gathered(step)) write_narrow(step);
    const Work work = work_of(phase);
    const auto& [reductions, stores, computed] = work;
    if (reductions.empty() && stores.empty() && computed.empty()) return;

    for (const int step : reductions) {
      const std::string_view how = dialect::reduction_of(step_at(step).what);
      if (is_of_pairs(step)) {
        const std::string_view type = dialect::type_of(bound_.loads[at(step_at(step_at(step).args[0]).access)]);
        put("u32 e{}[W / 2]; for (int i = 0; i < W / 2; ++i) e{}[i] = {}::pair({}::neutral(), {}::neutral());\n", step,
            step, type, how, how);
        continue;
      }
      put("float s{}[S]; for (int i = 0; i < S; ++i) s{}[i] = {}::neutral();\n", step, step, how);
      if (phases_.sum_of_squares(step) >= 0) put("float first{} = 0.0F;\n", step);
    }
    if (!shape_.is_reread) write_reads(phase, work);
    for (int step = 0; step < step_count(); ++step)  // after other reads, because a gathered read waits for its index
      if (phase == 0 && is_gathered(step)) write_narrow(step);
    write_pack_loop();
    known_.clear();
    read_.clear();
    for (const int step : computed) write_wide(step, phase);
    for (const int step : reductions) write_reduction(step, reductions, phase);
    for (const int i : stores) write_wide(program_.results[at(i)].step, phase);
    for (const int i : stores) write_store(i);  // after all reads: the first result may overwrite an operand
    put("}}\n");
    write_joins(reductions);
  }

  /// Sums that are merged with squares are accumulated together with them, both as differences from the first of a
  /// thread's columns. This column is one of the numbers, so neither sum is so much larger than the wanted result
  /// that its digits would be lost.
  void write_reduction(int step, const std::vector<int>& reductions, int phase) {
    const bool has_squares =
        std::ranges::any_of(reductions, [&](int other) { return phases_.sum_of_squares(other) == step; });
    if (has_squares) return;
    if (is_of_pairs(step)) {
      const int load = step_at(step).args[0];
      const std::string raw = write_raw(load);
      put("for (int i = 0; i < W / 2; ++i) e{}[i] = {}::join_pairs<{}>(e{}[i], {}.words[i]);\n", step,
          dialect::reduction_of(step_at(step).what), dialect::type_of(bound_.loads[at(step_at(load).access)]), step,
          raw);
      return;
    }
    const int sum = phases_.sum_of_squares(step), x = step_at(sum >= 0 ? sum : step).args[0];
    write_wide(x, phase);
    if (sum >= 0)
      put("if (p == 0) first{} = {}; for (int i = 0; i < W; ++i) {{ const float beyond = {} - first{}; s{}[i % S] += "
          "beyond; s{}[i % S] = fmaf(beyond, beyond, s{}[i % S]); }}\n",
          step, element(x, "0"), element(x), step, sum, step, step);
    else
      put("for (int i = 0; i < W; ++i) s{}[i % S] = {}::join(s{}[i % S], {});\n", step,
          dialect::reduction_of(step_at(step).what), step, element(x));
  }

  /// Whether a step is the extreme of a 16-bit load, which is computed on pairs of elements in their stored form.
  /// This takes a quarter of the instructions, and no register holds them as floats between phases.
  [[nodiscard]] bool is_of_pairs(int step) const {
    if (step_at(step).what == Do::kSum) return false;
    const Step& load = step_at(step_at(step).args[0]);
    if (common_.used.contains(step_at(step).args[0])) return false;
    if (load.what != Do::kLoad || shape_.width % 2 != 0 || repeats_of(at(load.access)) != 1) return false;
    return size_of(bound_.loads[at(load.access)]) == 2;
  }

  [[nodiscard]] bool is_gathered(int step) const {
    return step_at(step).what == Do::kLoad && program_.loads[at(step_at(step).access)].index >= 0;
  }

  void write_pack_loop() {
    if (shape_.is_reread) {
      put("for (int pack = lane; pack < {}; pack += T) {{\n", packs_of_row_);
      return;
    }
    put("_Pragma(\"unroll\") for (int p = 0; p < N; ++p) {{\nconst int pack = lane + p * T;\n");
    if (has_part_of_packs()) put("if (pack >= {}) continue;\n", packs_of_row_);
  }

  /// The wide loads that a phase is the first to need.
  [[nodiscard]] std::set<int> reads_of(int phase, const Work& work) const {
    std::set<int> needed;
    const auto need = [&](auto& self, int step) -> void {
      if (!phases_.is_wide(step) || common_.used.contains(step)) return;
      const Step& what = step_at(step);
      if (what.what == Do::kLoad) {
        if (!is_kept(step)) needed.insert(step);
        return;
      }
      if (is_kept(step) && phases_.first(step) < phase) return;
      for (const int arg : what.args)
        if (arg >= 0) self(self, arg);
    };
    for (const int step : work.reductions) need(need, step_at(step).args[0]);
    for (const int i : work.stores) need(need, program_.results[at(i)].step);
    for (const int step : work.computed) need(need, step);
    for (int step = 0; step < step_count(); ++step)
      if (step_at(step).what == Do::kLoad && is_kept(step) && phases_.first(step) == phase) needed.insert(step);
    return needed;
  }

  /// Issues all reads before any use, so that they are in flight together. In later phases only kept loads are read
  /// like this: the others are vectors shared by all rows, which are in cache and are read one pack at a time.
  void write_reads(int phase, const Work& work) {
    in_time_ = phase == 0 ? read_ahead_ : std::set<int>();
    std::set<int> unread;
    for (const int step : reads_of(phase, work))
      if ((phase == 0 || is_kept(step)) && !fetched_.contains(step) && in_time_.insert(step).second)
        unread.insert(step);
    if (unread.empty()) return;
    for (const int step : unread)
      if (!is_kept(step)) write_raw_packs(fmt::format("r{}", step), step);
    write_pack_loop();
    for (const int step : unread) put("{}\n", read(step, fmt::format("r{}[p]", step)));
    put("}}\n");
  }

  [[nodiscard]] std::string read(int load, std::string_view raw) const {
    const int access = step_at(load).access;
    const std::string_view type = dialect::type_of(bound_.loads[at(access)]);
    return fmt::format("read(static_cast<Raw<{}::kBytes * {}>&>({}), {});", type, width_of(at(access)), raw,
                       place_of(at(access)));
  }

  /// Element i of a value in the loop over packs.
  [[nodiscard]] std::string element(int step, std::string_view index = "i") const {
    if (!phases_.is_wide(step)) return fmt::format("v{}", step);
    if (common_.used.contains(step)) return fmt::format("c{}[p][{}]", step, index);
    const bool is_kept_float = is_kept(step) && step_at(step).what != Do::kLoad;
    if (program_.needs_rows && is_kept_float) return fmt::format("k{}[p][{}]", step, index);
    const int repeats = step_at(step).what == Do::kLoad ? repeats_of(at(step_at(step).access)) : 1;
    if (repeats > 1) return fmt::format("v{}[({}) / {}]", step, index, repeats);
    return fmt::format("v{}[{}]", step, index);
  }

  /// Emits a wide value in the loop over packs.
  void write_wide(int step, int phase) {
    if (!phases_.is_wide(step) || common_.used.contains(step) || !known_.insert(step).second) return;
    const Step& what = step_at(step);
    const bool is_kept_float = program_.needs_rows && is_kept(step) && what.what != Do::kLoad;
    if (is_kept_float && phases_.first(step) < phase) return;
    if (what.what == Do::kLoad) return write_load(step);
    for (const int arg : what.args)
      if (arg >= 0) write_wide(arg, phase);
    if (!is_kept_float) put("float v{}[W];\n", step);
    if (what.what == Do::kRotate) {
      const auto part = [&](int k, std::string_view index) { return element(what.args[at(k)], index); };
      put("for (int i = 0; i < W; i += 2) {{ const float x0 = {}, x1 = {}, c = {}, s = {}; {} = x0 * c - x1 * s; "
          "{} = x1 * c + x0 * s; }}\n",
          part(0, "i"), part(0, "i + 1"), part(1, "i"), part(2, "i"), element(step), element(step, "i + 1"));
      return;
    }
    put("for (int i = 0; i < W; ++i) {} = {};\n", element(step), expression(step));
  }

  /// Emits the read of a load's current pack in its stored form, and returns its name.
  std::string write_raw(int step) {
    if (in_time_.contains(step) || (is_kept(step) && program_.needs_rows)) return fmt::format("r{}[p]", step);
    std::string raw = fmt::format("w{}", step);
    const int access = step_at(step).access;
    if (read_.insert(step).second)
      put("Raw<{}::kBytes * {}> {}; {}\n", dialect::type_of(bound_.loads[at(access)]), width_of(at(access)), raw,
          read(step, raw));
    return raw;
  }

  void write_load(int step) {
    const int access = step_at(step).access;
    const std::string raw = write_raw(step);
    put("float v{}[{}]; expand<{}, {}>({}, v{});\n", step, width_of(at(access)),
        dialect::type_of(bound_.loads[at(access)]), width_of(at(access)), raw, step);
  }

  /// The expression of a step in terms of its operands' elements.
  [[nodiscard]] std::string expression(int step) const {
    const Step& what = step_at(step);
    const auto arg = [&](std::size_t k) { return element(what.args[k]); };
    switch (what.what) {
      case Do::kConstant:
        return dialect::number(what.numbers[0]);
      case Do::kSelect:
        return fmt::format("{} != 0.0F ? {} : {}", arg(0), arg(1), arg(2));
      case Do::kRound:
        return fmt::format("{}::rounded({})", dialect::type_of(what.dtype), arg(0));
      case Do::kScale:
        return fmt::format("scale_of({}, {})", arg(0), dialect::number(what.numbers[0]));
      case Do::kInverse:
        return fmt::format("inverse_of({}, {})", arg(0), dialect::number(what.numbers[0]));
      case Do::kQuantize:
        return fmt::format("__fmul_rn({}, {})", arg(0), arg(1));
      default: {
        if (is_exp_below(what)) return fmt::format("exp_below({})", arg(0));
        if (is_scaled_rest(what)) {
          const Step& rest = step_at(what.args[0]);
          return fmt::format("fmaf({0}, {1}, -{2} * {1})", element(rest.args[0]), arg(1), element(rest.args[1]));
        }
        std::vector<std::string> args;
        for (std::size_t k = 0; k < 3; ++k)
          if (what.args[k] >= 0) args.push_back(arg(k));
        for (std::size_t k = 0; args.size() < 3; ++k) args.push_back(k < 2 ? dialect::number(what.numbers[k]) : "0.0F");
        return fmt::format("do_{}({})", name_of(what.op), fmt::join(args, ", "));
      }
    }
  }

  /// Whether it is the exponential of a value minus its row's maximum.
  [[nodiscard]] bool is_exp_below(const Step& step) const {
    if (step.op != Op::kExp) return false;
    const Step& rest = step_at(step.args[0]);
    if (rest.what != Do::kFormula || rest.op != Op::kSub) return false;
    const Step& largest = step_at(rest.args[1]);
    return largest.what == Do::kMax && largest.args[0] == rest.args[0];
  }

  /// Whether a step is (x - mean) * factor, with a row's mean and factor. As x * factor - mean * factor it is one
  /// operation. Its error is as large as that of the mean itself, and has the same sign in all columns.
  [[nodiscard]] bool is_scaled_rest(const Step& step) const {
    if (step.op != Op::kMul || phases_.is_wide(step.args[1])) return false;
    const Step& rest = step_at(step.args[0]);
    if (rest.what != Do::kFormula || rest.op != Op::kSub || !phases_.is_wide(rest.args[0])) return false;
    const Step& mean = step_at(rest.args[1]);
    return mean.what == Do::kFormula && mean.op == Op::kMulScalar && step_at(mean.args[0]).what == Do::kSum;
  }

  /// A value of the whole row, before the loop over packs.
  void write_narrow(int step) {
    const Step& what = step_at(step);
    if (is_reduction(what.what)) return;  // combined after its loop
    if (what.what == Do::kLoad) {
      const std::string_view type = dialect::type_of(bound_.loads[at(what.access)]);
      put("float v{}; {{ Raw<{}::kBytes> raw; float one[1]; read(raw, {}); expand<{}, 1>(raw, one); v{} = one[0]; "
          "}}\n",
          step, type, place_of_row(what.access), type, step);
      return;
    }
    put("const float v{} = {};\n", step, expression(step));
  }

  /// Combines reductions over all threads of a row: those of one phase synchronize warps once.
  void write_joins(const std::vector<int>& reductions) {
    if (reductions.empty()) return;
    const bool are_several = shape_.threads > kWarp;  // warps
    std::set<int> with_squares;
    for (const int step : reductions)
      if (phases_.sum_of_squares(step) >= 0) with_squares.insert(phases_.sum_of_squares(step));
    for (const int step : reductions) {
      if (with_squares.contains(step)) continue;
      const std::string_view how = dialect::reduction_of(step_at(step).what);
      if (is_of_pairs(step)) {
        const std::string_view type = dialect::type_of(bound_.loads[at(step_at(step_at(step).args[0]).access)]);
        put("for (int i = 1; i < W / 2; ++i) e{}[0] = {}::join_pairs<{}>(e{}[0], e{}[i]);\nconst float s{}[1] = "
            "{{{}::join({}::get(e{}, 0), {}::get(e{}, 1))}};\n",
            step, how, type, step, step, step, how, type, step, type, step);
      } else {
        put("for (int i = 1; i < S; ++i) s{}[0] = {}::join(s{}[0], s{}[i]);\n", step, how, step, step);
      }
      if (const int sum = phases_.sum_of_squares(step); sum >= 0)
        put("for (int i = 1; i < S; ++i) s{}[0] += s{}[i];\nMoments w{} = moments_beyond(first{}, s{}[0], s{}[0], {}); "
            "join_lanes<T, {}>(w{});\n",
            sum, sum, step, step, sum, step,
            has_part_of_packs()
                ? fmt::format("static_cast<float>(lane < {0} ? ({0} - lane + T - 1) / T * W : 0)", packs_of_row_)
                : "static_cast<float>(N * W)",
            !has_part_of_packs(), step);
      else
        put("float w{} = join_lanes<{}, T>(s{}[0]);\n", step, how, step);
      if (are_several)
        put("__shared__ decltype(w{}) partial{}[T / 32]; if (threadIdx.x % 32 == 0) partial{}[threadIdx.x / 32] = "
            "w{};\n",
            step, step, step, step);
    }
    if (are_several) put("__syncthreads();\n");
    for (const int step : reductions) {
      if (with_squares.contains(step)) continue;
      const int sum = phases_.sum_of_squares(step);
      const std::string_view how = dialect::reduction_of(step_at(step).what);
      if (are_several && sum >= 0)
        put("w{} = join_warps<{}>(partial{}, w{}.count);\n", step, !has_part_of_packs(), step, step);
      else if (are_several)
        put("w{} = join_warps<{}, T / 32>(partial{});\n", step, how, step);
      if (sum >= 0)
        put("const float v{} = w{}.mean * w{}.count, v{} = w{}.squares;\n", sum, step, step, step, step);
      else
        put("const float v{} = w{};\n", step, step);
    }
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
    const DType dtype = bound_.results[at(result)];
    const bool is_quantized = step_at(step).what == Do::kQuantize;
    const std::string_view type = is_quantized && dtype == DType::kI8 ? "QuantizedI8" : dialect::type_of(dtype);
    const std::string condition = is_quantized  // a row without a scale needs no multiplication
                                      ? fmt::format(", {} != 0.0F", element(step_at(step).args[1]))
                                      : "";
    put("{}{{ float y[W]; for (int i = 0; i < W; ++i) y[i] = {}; store<{}, W>(y, {}{}); }}\n",
        program_.needs_rows && may_lack_rows() ? "if (exists) " : "", element(step), type,
        place_of(program_.loads.size() + at(result)), condition);
  }

  /// Results with one element per row.
  void write_narrow_results() {
    for (int i = 0; i < static_cast<int>(program_.results.size()); ++i) {
      if (is_wide_result(i)) continue;
      const std::string_view type = dialect::type_of(bound_.results[at(i)]);
      put("if (lane == 0{}) {{ const float y[1] = {{v{}}}; store<{}, 1>(y, a{}); }}\n",
          may_lack_rows() ? " && exists" : "", program_.results[at(i)].step, type, program_.loads.size() + at(i));
    }
  }

  // A kernel without rows: successive packs.

  void write_flat() {
    const std::int64_t total = rows_ * packs_of_row_;
    const std::string_view index = total <= INT32_MAX - flat_packs() ? "u32" : "i64";
    put("const {} first = static_cast<{}>(blockIdx.x) * {} + threadIdx.x;\n", index, index, flat_packs());
    for (int step = 0; step < step_count(); ++step)
      if (step_at(step).what == Do::kLoad)
        put("Raw<{}::kBytes * {}> r{}[N];\n", dialect::type_of(bound_.loads[at(step_at(step).access)]),
            phases_.is_wide(step) ? width_of(at(step_at(step).access)) : 1, step);
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
    read_.clear();
    in_time_.clear();
    for (int step = 0; step < step_count(); ++step) {
      const Step& what = step_at(step);
      if (what.what == Do::kLoad) in_time_.insert(step);
      if (phases_.is_wide(step)) {
        write_wide(step, 0);
      } else if (what.what == Do::kLoad) {
        const std::string_view type = dialect::type_of(bound_.loads[at(what.access)]);
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
      write_row_places("0");
    } else {
      put("const int pack = static_cast<int>(number % {});\n", packs_of_row_);
      write_row_places(fmt::format("(number / {})", packs_of_row_));
    }
    write_addresses();
  }

  const BoundProgram& bound_;
  const RowProgram& program_;
  RowShape shape_;
  Phases phases_;
  std::int64_t rows_;
  std::int64_t packs_of_row_;
  std::set<int> fetched_;  // loads that persistent blocks prefetch
  CommonSteps common_;     // values that those compute once for many rows
  std::string text_;
  std::set<int> known_;       // wide values of the current pack
  std::set<int> read_;        // loads of the current pack that were read in the loop
  std::set<int> in_time_;     // loads that were read before the loop over packs
  std::set<int> read_ahead_;  // loads that were read before the loop over a thread's rows
};

}  // namespace

KernelSource cuda_source_of(const BoundProgram& bound, const RowShape& shape) { return Writer(bound, shape).run(); }

}  // namespace headroom::cuda
