// fused: a body of elementwise ops, norms, softmax, quantizers and sums along rows, as the instructions of a tape
//
// Shapes     any that has a row program (lower/row_program.hpp); rows with innermost stride 1, any strides outside.
// Dtypes     f32, bf16, f16, f8e4m3, i8, u8, bool in memory; f32 arithmetic, one rounding where a result is stored.
//            Functions have bf16 accuracy if all their uses are rounded to bf16 or quantized (row_tape.cpp).
// Bytes      each operand once from memory: the operands of reductions are in cache for later phases.
// FLOPs      those of the body. An instruction is a loop over a plane in the first-level cache (row_tape.hpp), which
//            costs about a nanosecond for 16 elements; a register would cost nothing.
//
// Prefetches keep memory busy: a tape of one instruction prefetches 4 KiB ahead of its reads; in others each
// instruction also prefetches a part of the next rows. Results larger than any cache use non-temporal stores.
//
// Fractions of a copy's rate, on 16 cores with AVX-512 and tensors larger than the caches: 0.85 and more, except for
// bodies bound by instructions. Those quantize to f8e4m3 with few other bytes (0.40 to 0.78) or compute exponentials
// (0.36 to 0.83). docs/kernels.md has them all.
//
// Single ops keep their own kernels. Relative to those, before instructions were fused and prefetches spread evenly,
// on one core, for rows of 1024 elements beyond the caches (in cache, rows of 192): sums and products 0.9 to 1.1
// (0.6 to 0.9), functions 0.9 to 1.0 (0.9 to 1.0), norms 0.7 to 1.7 (0.5 to 0.8), softmax 0.6 to 0.7.

#include <algorithm>
#include <array>
#include <memory>
#include <span>
#include <utility>
#include <variant>

#include "ir/expand.hpp"
#include "kernels/core/cpu_kernel.hpp"
#include "kernels/core/simd_targets.hpp"
#include "kernels/fused/row_tape.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/fused/fused_cpu.cpp"
#include "hwy/foreach_target.h"
#include "kernels/fused/row_tape_inl.hpp"

#ifndef HEADROOM_KERNELS_FUSED_CPU
#define HEADROOM_KERNELS_FUSED_CPU
namespace headroom {
namespace {

constexpr std::size_t kMostTapeOperands = 32;
constexpr std::size_t kMostTapeSteps = 96;
constexpr std::size_t kMostTapeInstructions = 2 * kMostTapeSteps + kMostTapeOperands;

/// A tape bound to the op's operands.
struct BoundTape {
  RowTape tape;
  std::vector<std::size_t> operands;  ///< of the walk: inputs, and then outputs, of the op
  std::vector<bool> may_stream;       ///< whether its rows begin on cache lines, by the walk's operands
  std::vector<std::int64_t> strides;  ///< in bytes, by the walk's outer axes and operands
  bool exceeds_cache = false;
};

}  // namespace
}  // namespace headroom
#endif

HWY_BEFORE_NAMESPACE();
namespace headroom {
namespace HWY_NAMESPACE {
namespace {

using Addresses = std::array<char*, kMostTapeOperands>;

/// Iterates over rows: the offset of each in bytes from each operand's first element, in order.
class TapeCursor {
 public:
  TapeCursor(const BoundTape& bound, std::int64_t row) : tape_(bound.tape), strides_(bound.strides) {
    for (std::size_t axis = tape_.walk.outer.size(); axis-- > 0;) {
      const std::int64_t extent = tape_.walk.outer[axis].extent;
      index_[axis] = row % extent;
      row /= extent;
      move(axis, index_[axis]);
    }
  }

  [[nodiscard]] std::int64_t offset(std::size_t operand) const { return offsets_[operand]; }
  /// Along the innermost outer axis.
  [[nodiscard]] std::int64_t index() const {
    return tape_.walk.outer.empty() ? 0 : index_[tape_.walk.outer.size() - 1];
  }
  /// The rows left on the innermost outer axis.
  [[nodiscard]] std::int64_t rows_left() const {
    return tape_.walk.outer.empty() ? 1 : tape_.walk.outer.back().extent - index();
  }
  [[nodiscard]] std::int64_t columns() const {
    if (!tape_.is_cut) return tape_.columns;
    return HWY_MIN(tape_.columns, tape_.row_columns - index() * tape_.columns);
  }

  /// Advances by at most rows_left().
  void advance(std::int64_t rows) {
    for (std::size_t axis = tape_.walk.outer.size(); axis-- > 0;) {
      const std::int64_t extent = tape_.walk.outer[axis].extent;
      index_[axis] += rows;
      move(axis, rows);
      if (index_[axis] < extent) return;
      index_[axis] = 0;
      move(axis, -extent);
      rows = 1;
    }
  }

 private:
  void move(std::size_t axis, std::int64_t steps) {
    const std::size_t operands = tape_.dtypes.size();
    for (std::size_t k = 0; k < operands; ++k) offsets_[k] += steps * strides_[axis * operands + k];
  }

  const RowTape& tape_;
  std::span<const std::int64_t> strides_;
  std::array<std::int64_t, Shape::kMaxRank + 2> index_{};
  std::array<std::int64_t, kMostTapeOperands> offsets_{};
};

/// The cache lines that successive chunks of rows read, for calls to prefetch long before.
class ReadAheadOfChunks {
 public:
  ReadAheadOfChunks(const BoundTape& bound, const Addresses& memory, std::int64_t row, std::int64_t end)
      : tape_(bound.tape), memory_(memory), cursor_(bound, row), rows_left_(tape_.streams.empty() ? 0 : end - row) {
    if (rows_left_ > 0) begin_chunk();
  }

  /// The cache lines of a chunk of that many rows.
  static std::int64_t lines_of_chunk(const RowTape& tape, std::int64_t rows, std::int64_t columns) {
    std::int64_t lines = 0;
    for (const int operand : tape.streams) {
      const std::int64_t bytes = columns * size_of_element(tape, operand);
      lines += is_dense(tape, operand, bytes) ? lines_of(rows * bytes) : rows * lines_of(bytes);
    }
    return lines;
  }

  /// Prefetches the next lines now.
  void ask(std::int64_t lines) {
    for (; lines > 0 && rows_left_ > 0; --lines) {
      ask_second_level(address_);
      pass(1);
    }
  }
  /// Makes a call prefetch the next `lines` cache lines, spread over its `iterations`, as far as they are
  /// contiguous.
  void prefetch_during(std::int64_t lines, std::int64_t iterations, Call& call) {
    call.ahead_step = 0;
    if (rows_left_ == 0) return;
    const std::int64_t together =
        HWY_MIN(lines, HWY_MIN(lines_of(end_ - address_), iterations * kMostAheadStep / kCacheLine));
    ask_later(together, iterations, call);
    ask(lines - together);
  }

 private:
  static std::int64_t size_of_element(const RowTape& tape, int operand) {
    return static_cast<std::int64_t>(size_of(tape.dtypes[static_cast<std::size_t>(operand)]));
  }
  static std::int64_t pitch_of(const RowTape& tape, int operand) {
    if (tape.walk.outer.empty()) return 0;
    return tape.walk.outer.back().strides[static_cast<std::size_t>(operand)] * size_of_element(tape, operand);
  }
  static bool is_dense(const RowTape& tape, int operand, std::int64_t row_bytes) {
    return pitch_of(tape, operand) == row_bytes;
  }
  static std::int64_t lines_of(std::int64_t bytes) { return (bytes + kCacheLine - 1) / kCacheLine; }

  void ask_later(std::int64_t lines, std::int64_t iterations, Call& call) {
    if (lines == 0) return;
    call.ahead = address_;
    call.ahead_step = (lines * kCacheLine + iterations - 1) / iterations;
    pass(lines);
  }
  void pass(std::int64_t lines) {
    address_ += lines * kCacheLine;
    if (address_ < end_) return;
    if (row_ == rows_ && ++stream_ == tape_.streams.size()) {
      cursor_.advance(rows_);
      rows_left_ -= rows_;
      if (rows_left_ > 0) begin_chunk();
    } else {
      if (row_ == rows_) row_ = 0;
      find_lines();
    }
  }
  void begin_chunk() {
    rows_ = HWY_MIN(HWY_MIN(tape_.rows, rows_left_), cursor_.rows_left());
    stream_ = 0;
    row_ = 0;
    find_lines();
  }
  /// The contiguous lines of a stream: of a row, or of all rows.
  void find_lines() {
    const int operand = tape_.streams[stream_];
    const std::int64_t bytes = cursor_.columns() * size_of_element(tape_, operand);
    const bool has_all = is_dense(tape_, operand, bytes);
    const auto k = static_cast<std::size_t>(operand);
    address_ = memory_[k] + cursor_.offset(k) + row_ * pitch_of(tape_, operand);
    end_ = address_ + (has_all ? rows_ : 1) * bytes;
    row_ = has_all ? rows_ : row_ + 1;
  }

  const RowTape& tape_;
  const Addresses& memory_;
  TapeCursor cursor_;
  std::int64_t rows_left_;
  std::int64_t rows_ = 0, row_ = 0;  // of the chunk; after those being prefetched
  std::size_t stream_ = 0;
  const char* address_ = nullptr;
  const char* end_ = nullptr;
};

/// Runs a tape for a part of the rows.
class TapeRun {
 public:
  TapeRun(const BoundTape& bound, const RowPart& part)
      : bound_(bound),
        tape_(bound.tape),
        part_(part),
        memory_(memory_of(bound, part)),
        spreads_asking_(bound.exceeds_cache && wide_instructions() > 1) {
    const std::size_t inputs = part.arguments.inputs.size();
    for (std::size_t k = 0; k < tape_.dtypes.size(); ++k) {
      const bool is_aligned = reinterpret_cast<std::uintptr_t>(memory_[k]) % kCacheLine == 0;
      const bool is_first = bound.operands[k] == inputs;
      past_cache_[k] = bound.exceeds_cache && bound.may_stream[k] && is_aligned && (part.past_cache || !is_first);
    }
    planes_ = part.scratch;
    kept_ = planes_ + tape_.rows * tape_.planes * tape_.block_pitch();
    shared_ = kept_ + tape_.rows * tape_.kept_rows * tape_.row_pitch();
    narrow_ = shared_ + tape_.shared_rows * tape_.row_pitch();
    std::size_t count = 0;
    for (const TapeInstruction& what : tape_.shared) bind(ready_.at(count++), what, false);
    for (const RowTape::Phase& phase : tape_.phases) {
      for (const TapeInstruction& what : phase.narrow) bind(ready_.at(count++), what, true);
      for (const TapeInstruction& what : phase.wide) {
        operations_ += operations_of(what);
        bind(ready_.at(count++), what, false);
      }
    }
  }

  void run() {
    TapeCursor cursor(bound_, part_.begin);
    ReadAheadOfChunks ahead(bound_, memory_, part_.begin, spreads_asking_ ? part_.end : part_.begin);
    for (std::int64_t row = part_.begin; row < part_.end;) {
      rows_ = HWY_MIN(HWY_MIN(tape_.rows, part_.end - row), cursor.rows_left());
      columns_ = cursor.columns();
      for (std::size_t k = 0; k < tape_.dtypes.size(); ++k) at_[k] = memory_[k] + cursor.offset(k);
      const bool is_new = row == part_.begin || cursor.index() == 0;
      std::int64_t lines = 0;
      if (spreads_asking_) {
        lines = ReadAheadOfChunks::lines_of_chunk(tape_, rows_, columns_);
        if (row == part_.begin) ahead.ask(HWY_MIN(lines, kMostAheadLines));
        lines_of_operation_ = static_cast<double>(lines) / static_cast<double>(operations_ * columns_);
      }
      cursor.advance(rows_);
      row += rows_;
      run_chunk(is_new, lines, ahead);
    }
    hwy::FlushStream();
  }

 private:
  using Kind = TapePlace::Kind;
  static constexpr std::int64_t kFloat = sizeof(float);
  /// A chunk's cache lines are prefetched while the previous chunk is computed, at most the last kMostAheadLines: a
  /// part of the second-level cache.
  static constexpr std::int64_t kMostAheadLines = 4096;

  /// An instruction with the call parameters that do not depend on the block.
  struct Ready {
    Run run;
    Call call;
    bool is_stored_as_well;
    int operations;
    struct Base {
      char* at;  ///< null in memory, of operand
      std::size_t operand;
      std::int64_t column_bytes;  ///< from one column of a block to the next
    };
    std::array<Base, kMostTapeArguments + 2> bases;  ///< of x, y and also
  };

  static Addresses memory_of(const BoundTape& bound, const RowPart& part) {
    Addresses memory{};
    const std::size_t inputs = part.arguments.inputs.size();
    for (std::size_t k = 0; k < bound.operands.size(); ++k) {
      const std::size_t operand = bound.operands[k];
      memory[k] = operand < inputs ? const_cast<char*>(part.input<char>(operand)) : part.output<char>(operand - inputs);
    }
    return memory;
  }

  [[nodiscard]] std::int64_t wide_instructions() const {
    std::int64_t count = 0;
    for (const RowTape::Phase& phase : tape_.phases) count += static_cast<std::int64_t>(phase.wide.size());
    return count;
  }

  /// A per-row instruction treats all rows of a chunk as one: their elements are contiguous.
  void bind(Ready& to, const TapeInstruction& what, bool is_narrow) const {
    using Do = TapeInstruction::Do;
    Call& call = to.call;
    to.operations = operations_of(what);
    for (std::size_t k = 0; k < kMostTapeArguments; ++k) {
      const bool is_halved = what.what == Do::kRotate && k > 0;
      const Place x = find(what.x[k], is_halved, is_narrow);
      call.x[k] = {nullptr, x.row_bytes, x.step, x.dtype};
      to.bases[k] = x.base;
    }
    const Place y = find(what.y, false, is_narrow);
    to.bases[kMostTapeArguments] = y.base;
    call.y = y.base.at;
    call.y_row_bytes = y.row_bytes;
    call.dtype = y.dtype;
    call.past_cache = is_past_cache(what.y);
    call.asks_ahead = bound_.exceeds_cache && wide_instructions() == 1 && !is_narrow;
    call.ahead = nullptr;
    call.ahead_step = 0;
    call.reduced = find(what.reduced, false, false).base.at;
    const Place also = find(what.also, false, false);
    to.bases[kMostTapeArguments + 1] = also.base;
    to.is_stored_as_well = what.also.kind != Kind::kNone;
    call.also = nullptr;
    call.also_row_bytes = also.row_bytes;
    call.also_dtype = also.dtype;
    call.also_past_cache = is_past_cache(what.also);
    call.is_first = call.is_last = true;
    // Shared and per-row instructions get rows and columns at the call.
    to.run = run_of(what, call, what.y.kind != Kind::kNone);
  }

  [[nodiscard]] bool is_past_cache(const TapePlace& place) const {
    return place.kind == Kind::kMemory && past_cache_[static_cast<std::size_t>(place.index)];
  }

  struct Place {
    typename Ready::Base base;
    std::int64_t row_bytes, step;
    DType dtype;
  };
  [[nodiscard]] Place find(const TapePlace& place, bool is_halved, bool is_narrow) const {
    const auto index = static_cast<std::int64_t>(place.index);
    const auto own = [&](float* at, std::int64_t pitch, std::int64_t step, std::int64_t column_bytes) {
      return Place{{reinterpret_cast<char*>(at), 0, column_bytes}, pitch * kFloat, step, DType::kF32};
    };
    switch (place.kind) {
      case Kind::kMemory: {
        const auto k = static_cast<std::size_t>(place.index);
        const auto bytes = static_cast<std::int64_t>(size_of(tape_.dtypes[k]));
        const std::int64_t pitch = tape_.walk.outer.empty() ? 0 : tape_.walk.outer.back().strides[k] * bytes;
        return {{nullptr, k, is_halved ? bytes / 2 : bytes}, pitch, bytes, tape_.dtypes[k]};
      }
      case Kind::kPlane:
        return own(planes_ + index * tape_.rows * tape_.block_pitch(), tape_.block_pitch(), kFloat, 0);
      case Kind::kRow:
        return own(kept_ + index * tape_.rows * tape_.row_pitch(), tape_.row_pitch(), kFloat, kFloat);
      case Kind::kShared:
        return own(shared_ + index * tape_.row_pitch(), 0, kFloat, kFloat);
      case Kind::kNarrow:
        return own(narrow_ + index * tape_.rows * kTapeLanes, kTapeLanes, is_narrow ? kFloat : 0, 0);
      case Kind::kConstant:
        return own(const_cast<float*>(tape_.constants.data()) + index * kTapeLanes, 0, 0, 0);
      case Kind::kNone:
        break;
    }
    return own(nullptr, 0, 0, 0);
  }

  void run_chunk(bool is_new, std::int64_t lines_left, ReadAheadOfChunks& ahead) {
    double lines_due = 1;  // rounded up
    const auto run_blocks = [&](std::span<Ready> instructions, double lines_of_operation) {
      for (std::int64_t column = 0; column < columns_; column += tape_.block) {
        const std::int64_t columns = HWY_MIN(tape_.block, columns_ - column);
        for (Ready& ready : instructions) {
          lines_due += lines_of_operation * static_cast<double>(ready.operations * columns);
          const std::int64_t lines = HWY_MIN(lines_left, static_cast<std::int64_t>(lines_due));
          lines_due -= static_cast<double>(lines);
          ahead.prefetch_during(lines, rows_ * (columns / (2 * lanes())), ready.call);
          lines_left -= lines;
          ready.call.is_first = column == 0;
          ready.call.is_last = column + columns == columns_;
          call(ready, column, rows_, columns);
        }
      }
    };
    std::span<Ready> left(ready_);
    const auto take = [&](std::size_t count) {
      const std::span<Ready> taken = left.first(count);
      left = left.subspan(count);
      return taken;
    };
    const std::span<Ready> shared = take(tape_.shared.size());
    if (is_new && !shared.empty()) {
      const std::int64_t rows = std::exchange(rows_, 1);
      run_blocks(shared, 0);
      rows_ = rows;
    }
    for (const RowTape::Phase& phase : tape_.phases) {
      for (const TapeInstruction& what : phase.narrow) {
        using Do = TapeInstruction::Do;
        const bool is_by_row = what.what == Do::kSpread || what.what == Do::kStoreNarrow;
        call(take(1)[0], 0, is_by_row ? rows_ : 1, rows_ * kTapeLanes);
      }
      const std::span<Ready> wide = take(phase.wide.size());
      if (!wide.empty()) run_blocks(wide, lines_of_operation_);
    }
  }

  void call(Ready& ready, std::int64_t column, std::int64_t rows, std::int64_t columns) const {
    const auto place = [&](const typename Ready::Base& base) {
      return (base.at != nullptr ? base.at : at_[base.operand]) + column * base.column_bytes;
    };
    for (std::size_t k = 0; k < kMostTapeArguments; ++k) ready.call.x[k].at = place(ready.bases[k]);
    ready.call.y = place(ready.bases[kMostTapeArguments]);
    if (ready.is_stored_as_well) ready.call.also = place(ready.bases[kMostTapeArguments + 1]);
    ready.call.rows = rows;
    ready.call.columns = columns;
    ready.run(ready.call);
  }

  const BoundTape& bound_;
  const RowTape& tape_;
  const RowPart& part_;
  Addresses memory_, at_{};
  /// Whether all instructions share the prefetch of the next chunk. A single instruction prefetches its own
  /// operands.
  bool spreads_asking_;
  std::array<bool, kMostTapeOperands> past_cache_{};
  float *planes_, *kept_, *shared_, *narrow_;
  std::array<Ready, kMostTapeInstructions> ready_;  // as many as there are
  std::int64_t rows_ = 1, columns_ = 0;
  int operations_ = 0;             ///< of all wide instructions, on a column
  double lines_of_operation_ = 0;  ///< of the next chunk, for each operation on a column of this one
};

void run_tape(const BoundTape& bound, const RowPart& part) { TapeRun(bound, part).run(); }

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace headroom
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace headroom {
namespace {

HWY_EXPORT(run_tape);

/// The tape of the op on dense operands.
RowTape dense_tape(const OpSpec& spec) { return tape_of(densely_bound_program(spec)); }

/// Whether only rotations read a load, as their table.
bool is_rotation_table(const RowProgram& program, int load) {
  if (program.loads[static_cast<std::size_t>(load)].index >= 0) return false;
  const auto is_load = [&](int step) {
    const RowProgram::Step& read = program.steps[static_cast<std::size_t>(step)];
    return read.what == RowProgram::Do::kLoad && read.access == load;
  };
  return std::ranges::all_of(program.steps, [&](const RowProgram::Step& step) {
    const bool rotates = step.what == RowProgram::Do::kRotate;
    for (std::size_t k = 0; k < step.args.size(); ++k)
      if (step.args[k] >= 0 && is_load(step.args[k]) && !(rotates && k > 0)) return false;
    return true;
  });
}

Support supports_fused(const OpSpec& spec) {
  auto program = row_program_of(body_of(spec.attributes));
  if (auto* reason = std::get_if<std::string>(&program)) return Rejection{"has no row program: " + *reason};
  const RowProgram& rows = std::get<RowProgram>(program);
  if (rows.loads.size() + rows.results.size() > kMostTapeOperands || rows.steps.size() > kMostTapeSteps)
    return Rejection{fmt::format("takes bodies of up to {} operands and {} steps", kMostTapeOperands, kMostTapeSteps)};
  for (std::size_t i = 0; i < rows.loads.size(); ++i)
    if (!rows.loads[i].is_plain() && !is_rotation_table(rows, static_cast<int>(i)) &&
        (rows.loads[i].index >= 0 || !repeats_whole_pixels(rows, spec.outputs[0])))
      return Rejection{"takes no elements that are repeated or gathered, but for pixels of channels-last images"};
  return std::nullopt;
}

KernelPlan plan_fused(const KernelBinding& binding) {
  const BoundProgram program = bound_program(binding.spec, binding.inputs, binding.outputs);
  if (program.program.space.numel() == 0) return {.launch = [](const LaunchArguments&) {}};
  const auto bound = std::make_shared<BoundTape>();
  bound->tape = tape_of(program);
  bound->exceeds_cache = binding.exceeds_cache;
  const RowTape& tape = bound->tape;
  for (const RowAccess& load : program.program.loads) bound->operands.push_back(static_cast<std::size_t>(load.operand));
  for (std::size_t i = 0; i < binding.outputs.size(); ++i) bound->operands.push_back(binding.inputs.size() + i);
  for (std::size_t k = 0; k < tape.dtypes.size(); ++k)
    bound->may_stream.push_back(
        k >= tape.loads && tape.walk.columns.strides[k] != 0 &&
        std::ranges::all_of(tape.walk.outer, [&](const RowWalk::Axis& axis) {
          return axis.strides[k] * static_cast<std::int64_t>(size_of(tape.dtypes[k])) % kCacheLine == 0;
        }));
  for (const RowWalk::Axis& axis : tape.walk.outer)
    for (std::size_t k = 0; k < tape.dtypes.size(); ++k)
      bound->strides.push_back(axis.strides[k] * static_cast<std::int64_t>(size_of(tape.dtypes[k])));
  const RowWork work{.threads = binding.threads,
                     .rows = tape.walk.rows(),
                     .elements = tape.columns,
                     .may_pass_cache = binding.exceeds_cache && bound->may_stream[tape.loads],
                     .scratch_elements = tape.scratch_elements()};
  KernelPlan plan = share_rows(work, [bound](const RowPart& part) { HWY_DYNAMIC_DISPATCH(run_tape)(*bound, part); });
  return plan;
}

class FusedKernel : public CpuKernel {
 public:
  using CpuKernel::CpuKernel;

  /// True if each element of the input is read once, before or when that of the result is written. A phase stores its
  /// first result last, and others as soon as they are computed.
  [[nodiscard]] bool may_overwrite(const OpSpec& spec, int input, int output) const override {
    if (output != 0 || spec.inputs[static_cast<std::size_t>(input)] != spec.outputs[0]) return false;
    const auto program = std::get<RowProgram>(row_program_of(body_of(spec.attributes)));
    const RowTape tape = dense_tape(spec);
    for (std::size_t i = 0; i < program.loads.size(); ++i) {
      const RowAccess& load = program.loads[i];
      if (load.operand != input) continue;
      if (!load.is_plain() || load.axes != program.results[0].axes || tape.last_read[i] > tape.first_write)
        return false;
    }
    return true;
  }
};

}  // namespace

const Kernel& highway_fused() {
  static const FusedKernel kernel(
      {.name = "highway.fused", .op = Op::kFused, .supports = supports_fused, .plan = plan_fused});
  return kernel;
}

}  // namespace headroom
#endif
