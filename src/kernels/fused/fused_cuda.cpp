// fused: a body of elementwise ops, norms, softmax, quantizers and sums along rows, as one kernel generated for it
//
// Shapes     any that has a row program (lower/row_program.hpp); rows with innermost stride 1, any strides outside. A
//            kernel is specialized for its shapes and strides: its index arithmetic is on constants.
// Dtypes     f32, bf16, f16, f8e4m3, i8, u8, bool in memory; f32 arithmetic, one rounding where a result is stored.
// Alignment  the largest divisor of a row's length, up to 16 bytes: columns are read in packs of that size.
// Bytes      each operand once: the operands of reductions stay in registers. A row too long for the registers of 1024
//            threads is read again in each phase.
//
// The number of threads per row is measured for work of at least kLeastMeasured bytes, once on each GPU, among
// several candidates. Fewer threads with more packs each wait less for one another, and hold more registers.
//
// Short rows leave a thread with few reads in flight: a thread then takes several rows. Rows that fill the registers
// of one or two warps leave few rows resident. Persistent blocks can then prefetch (cp.async) the packs of the next
// rows to shared memory while they work on one. They also keep values common to many rows, such as a scale and a
// shift for all tokens, as f32. (Large tensors with rows of 3072 that are normed, modulated and quantized. In bf16:
// 86.5 us with persistent blocks, 90.8 if they recompute common values in each row, 106 with one block per row. In
// f32: 139, 146 and 153. Ten other bodies lose 4 to 15% with persistent blocks. H200)
//
// Tried and rejected: packs of 8 columns in programs with f32 operands (0.95 of the rate of 4), and 4 packs per
// thread in programs without rows (0.96 of the rate of 1).

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <memory>
#include <utility>
#include <variant>
#include <vector>

#include "base/files/hash.hpp"
#include "ir/expand.hpp"
#include "kernels/core/cuda/cuda_kernel.hpp"
#include "kernels/core/cuda/or_cannot_prepare.hpp"
#include "kernels/core/cuda/tuner_of.hpp"
#include "kernels/fused/cuda_source.hpp"
#include "kernels/vendor/nvrtc/compile_to_cubin.hpp"
#include "kernels/vendor/nvrtc/compiler_threads.hpp"

namespace headroom {
namespace {

using cuda::CudaKernel;
using cuda::RowShape;

constexpr std::size_t kLeastMeasured = std::size_t{1} << 20;
constexpr std::int64_t kMostBlocks = (std::int64_t{1} << 31) - 1;

Support supports_fused(const OpSpec& spec) {
  if (std::string reason = nvrtc::obstacle(); !reason.empty()) return Rejection{std::move(reason)};
  auto program = row_program_of(body_of(spec.attributes));
  if (auto* reason = std::get_if<std::string>(&program)) return Rejection{"has no row program: " + *reason};
  if (spec.outputs[0].shape.numel() >= kMostBlocks * 32) return Rejection{"has more rows than a grid has blocks"};
  return std::nullopt;
}

/// The candidate shapes of a kernel, until one of them is chosen.
class Generated {
 public:
  Generated(const KernelBinding& binding, BoundProgram bound)
      : backend_(cuda::backend_of(binding)), bound_(std::move(bound)) {
    const std::span<const Operand> inputs = binding.inputs, outputs = binding.outputs;
    for (const RowAccess& load : bound_.program.loads) {
      const TensorType& type = inputs[static_cast<std::size_t>(load.operand)].type;
      operands_.push_back({.dtype = type.dtype, .bytes = span_of(inputs[static_cast<std::size_t>(load.operand)])});
    }
    for (const Operand& output : outputs)
      operands_.push_back({.dtype = output.type.dtype, .bytes = span_of(output), .is_result = true});

    std::vector<RowShape> shapes = cuda::row_shapes(bound_, binding.target.multiprocessors);
    std::size_t bytes = 0;
    for (const tune::TrialOperand& operand : operands_) bytes += operand.bytes;
    if (bytes < kLeastMeasured) shapes.resize(1);
    if (shapes.size() > 1) {
      work_ = {.text = "fused " + Hasher().add(cuda_source_of(bound_, shapes[0]).text).hex(),
               .operands = operands_,
               .size_key = cuda::size_key_of(bound_)};
      if (const std::optional<RowShape> chosen = choose_unmeasured(shapes, binding.target.new_work)) shapes = {*chosen};
    }
    const std::shared_ptr<nvrtc::Compiler> compiler = backend_.context<nvrtc::Compiler>();
    for (const RowShape& shape : shapes) {
      cuda::KernelSource source = cuda_source_of(bound_, shape);
      algorithms_.push_back({.name = name_of_shape(shape),
                             .kernel = compiler->begin(std::move(source.text)),
                             .blocks = static_cast<unsigned>(source.blocks),
                             .threads = source.threads});
    }
  }

  /// Waits for the compiler, and measures if there are several candidates.
  void finish() {
    if (chosen_ != nullptr) return;
    cuda::or_cannot_prepare([&] {
      if (algorithms_.size() > 1) choose();
      loaded_ = &algorithms_[best_].kernel->get();
      chosen_ = &algorithms_[best_];
    });
  }

  void launch(const LaunchArguments& arguments) const {
    std::array<void*, kMostArguments> addresses{};
    std::size_t count = 0;
    for (const RowAccess& load : bound_.program.loads)
      addresses.at(count++) = arguments.inputs[static_cast<std::size_t>(load.operand)].address<void>();
    for (std::size_t i = 0; i < bound_.program.results.size(); ++i) addresses.at(count++) = arguments.output(i);
    submit(*chosen_, *loaded_, arguments.stream.native_handle(), std::span(addresses).first(count));
  }

 private:
  static constexpr std::size_t kMostArguments = 128;
  struct Algorithm {
    std::string name;
    std::shared_ptr<const nvrtc::PendingKernel> kernel;
    unsigned blocks;
    unsigned threads;
  };

  static std::string name_of_shape(const RowShape& shape) {
    return fmt::format("{} columns, {} threads, {} packs{}{}{}", shape.width, shape.threads, shape.packs,
                       shape.staying > 0 ? fmt::format(", {} staying, {} ahead", shape.staying, shape.ahead) : "",
                       shape.rows_of_thread > 1 ? fmt::format(", {} rows", shape.rows_of_thread) : "",
                       shape.blocks > 0 ? fmt::format(", {} blocks", shape.blocks) : "");
  }
  /// Bytes from the first element to the end of the last.
  static std::size_t span_of(const Operand& operand) {
    std::int64_t last = 0;
    for (int axis = 0; axis < operand.type.shape.rank(); ++axis)
      last += (operand.type.shape[axis] - 1) * operand.strides[axis];
    return static_cast<std::size_t>(last + 1) * size_of(operand.type.dtype);
  }

  [[nodiscard]] tune::Tuner& search() { return *backend_.context<cuda::TunerOf<nvrtc::version_text>>(); }

  /// The shape known to be the fastest. If nothing is to be timed, since timing compiles a kernel for each shape:
  /// the shape of the nearest tuned size that is listed here, or the best guess.
  [[nodiscard]] std::optional<RowShape> choose_unmeasured(std::span<const RowShape> shapes, NewWork new_work) {
    const auto called = [&](const std::string& name) -> std::optional<RowShape> {
      const auto same = std::ranges::find(shapes, name, name_of_shape);
      return same == shapes.end() ? std::nullopt : std::optional(*same);
    };
    if (const std::optional<std::string> known = search().find_known(work_))
      if (const std::optional<RowShape> shape = called(*known)) return shape;
    if (new_work == NewWork::kMeasure) return std::nullopt;
    for (const tune::TunedSize& tuned : search().find_nearest(work_))
      if (const std::optional<RowShape> shape = called(tuned.algorithm)) return shape;
    return shapes.front();
  }

  void choose() {
    std::vector<tune::Candidate> candidates;
    for (const Algorithm& algorithm : algorithms_) candidates.push_back({.name = algorithm.name});
    const std::optional<tune::Choice> choice = search().find_fastest(
        work_, candidates, [&](std::size_t index, void* stream, std::span<void* const> operands, void* /*workspace*/) {
          submit(algorithms_[index], algorithms_[index].kernel->get(), stream, operands);
        });
    if (choice) best_ = choice->index;
  }

  static void submit(const Algorithm& algorithm, const nvrtc::LoadedKernel& kernel, void* stream,
                     std::span<void* const> addresses) {
    std::array<void*, kMostArguments> arguments{};  // their addresses: the launch copies the values
    for (std::size_t i = 0; i < addresses.size(); ++i) arguments.at(i) = const_cast<void**>(&addresses[i]);
    kernel.launch(stream, algorithm.blocks, algorithm.threads, 1, std::span(arguments).first(addresses.size()));
  }

  Backend& backend_;
  BoundProgram bound_;
  std::vector<tune::TrialOperand> operands_;
  tune::Work work_;  // if there are several shapes
  std::vector<Algorithm> algorithms_;
  std::size_t best_ = 0;
  const Algorithm* chosen_ = nullptr;
  const nvrtc::LoadedKernel* loaded_ = nullptr;
};

KernelPlan plan_fused(const KernelBinding& binding) {
  BoundProgram bound = bound_program(binding.spec, binding.inputs, binding.outputs, cuda::kCacheBytes);
  if (bound.program.space.numel() == 0) return {.launch = [](const LaunchArguments&) {}};
  return cuda::or_cannot_prepare([&] {
    const auto generated = std::make_shared<Generated>(binding, std::move(bound));
    return KernelPlan{.launch = [generated](const LaunchArguments& arguments) { generated->launch(arguments); },
                      .implementation = body_of(binding.spec.attributes).name(),
                      .finish = [generated] { generated->finish(); }};
  });
}

class FusedKernel : public CudaKernel {
 public:
  using CudaKernel::CudaKernel;

  [[nodiscard]] StrideRule input_strides(const OpSpec& spec, int input) const override {
    return rule_of(spec.inputs[static_cast<std::size_t>(input)]);
  }
  [[nodiscard]] StrideRule output_strides(const OpSpec& spec, int output) const override {
    return rule_of(spec.outputs[static_cast<std::size_t>(output)]);
  }
  /// True if each element of the input is read once, by the thread that then writes it.
  [[nodiscard]] bool may_overwrite(const OpSpec& spec, int input, int output) const override {
    if (spec.inputs[static_cast<std::size_t>(input)] != spec.outputs[static_cast<std::size_t>(output)]) return false;
    const auto program = std::get<RowProgram>(row_program_of(body_of(spec.attributes)));
    int loads = 0;
    for (const RowAccess& load : program.loads) {
      if (load.operand != input) continue;
      ++loads;
      if (!load.is_plain() || load.axes != program.results[static_cast<std::size_t>(output)].axes) return false;
    }
    return loads == 1;
  }
  /// A gathered operand counts only its gathered elements.
  [[nodiscard]] Cost cost(const OpSpec& spec) const override {
    Cost cost = CudaKernel::cost(spec);
    const auto program = row_program_of(body_of(spec.attributes));
    if (!std::holds_alternative<RowProgram>(program)) return cost;
    const std::vector<RowAccess>& loads = std::get<RowProgram>(program).loads;
    for (const RowAccess& load : loads) {
      const bool is_read_whole = std::ranges::any_of(
          loads, [&](const RowAccess& other) { return other.operand == load.operand && other.index < 0; });
      if (load.index < 0 || is_read_whole) continue;
      const TensorType& table = spec.inputs[static_cast<std::size_t>(load.operand)];
      const RowAccess& places = loads[static_cast<std::size_t>(load.index)];
      const std::int64_t count = spec.inputs[static_cast<std::size_t>(places.operand)].shape.numel();
      cost.bytes += static_cast<double>(size_of(table.dtype)) * static_cast<double>(count - table.shape.numel());
    }
    return cost;
  }

 private:
  static StrideRule rule_of(const TensorType& type) {
    if (type.shape.rank() == 0) return StrideRule::kInnerDense;
    const std::int64_t columns = type.layout == Layout::kChannelsLast ? type.shape[1] : type.shape[-1];
    const auto bytes = static_cast<std::uint64_t>(columns) * size_of(type.dtype);
    const std::uint64_t whole = bytes == 0 ? 16 : std::uint64_t{1} << std::min(4, std::countr_zero(bytes));
    return {StrideRule::kInnerDense, columns == 1 ? 1 : whole};
  }
};

}  // namespace

const Kernel& cuda_fused() {
  static const FusedKernel kernel(
      {.name = "cuda.fused", .op = Op::kFused, .supports = supports_fused, .plan = plan_fused});
  return kernel;
}

}  // namespace headroom
