#include <algorithm>
#include <utility>

#include "base/out_of_memory.hpp"
#include "kernels/conv/convolution.hpp"
#include "kernels/conv/direct.hpp"
#include "kernels/conv/gemv.hpp"
#include "kernels/conv/hopper.hpp"
#include "kernels/conv/pointwise.hpp"
#include "kernels/core/cuda/copy_rows.hpp"
#include "kernels/core/cuda/cuda_kernel.hpp"
#include "kernels/core/cuda/or_cannot_prepare.hpp"
#include "kernels/core/cuda/tuner_of.hpp"
#include "kernels/core/support.hpp"
#include "kernels/vendor/cublaslt/gemm.hpp"
#include "kernels/vendor/cudnn/convolution.hpp"
#include "tune/fastest_algorithm.hpp"

namespace headroom::convolutions {
namespace {

constexpr double kLeastFlops = 2e8;              // of work that is timed: an engine takes up to a second to compile
constexpr std::string_view kInTwo = "in two: ";  // prefix of such an algorithm's name
/// Copies of the weight are rotated, so that it comes from memory as in a model: more than twice any L2.
constexpr std::size_t kRotatedBytes = std::size_t{160} << 20;

/// The size of an operand in the problem's dtype.
std::size_t bytes_of(const Problem& problem, const Shape& shape) {
  return static_cast<std::size_t>(shape.numel()) * size_of(problem.dtype);
}

/// For images of any size with the same channels, or for any rows of a GEMM in lines.
tune::SizeKey size_key_of(const Problem& problem) {
  Problem any = problem;
  const bool is_rows = is_pointwise(problem);
  for (Shape* const shape : {&any.x, &any.y}) *shape = {1, (*shape)[1], 1, is_rows ? (*shape)[3] : 1};
  const Shape& x = problem.x;
  return {.family = to_text(any), .size = is_rows ? std::vector{x[2] * x[3]} : std::vector{x[0], x[2], x[3]}};
}

tune::Work work_of(const Problem& problem) {
  const auto bytes = [&](const Shape& shape) { return bytes_of(problem, shape); };
  const DType of_bias = problem.bias.value_or(problem.dtype);
  const std::size_t copies = std::clamp<std::size_t>(kRotatedBytes / bytes(problem.weight) + 1, 2, 64);
  return {.text = to_text(problem),
          .operands = {{.dtype = problem.dtype, .bytes = bytes(problem.x)},
                       {.dtype = problem.dtype, .bytes = bytes(problem.weight), .copies = copies},
                       {.dtype = of_bias, .bytes = static_cast<std::size_t>(problem.y[1]) * size_of(of_bias)},
                       {.dtype = problem.dtype, .bytes = problem.has_residual ? bytes(problem.y) : 0},
                       {.dtype = problem.dtype, .bytes = bytes(shortcut_shape(problem))},
                       {.dtype = problem.dtype, .bytes = bytes({problem.y[1], problem.shortcut}), .copies = copies},
                       {.dtype = problem.dtype, .bytes = bytes(problem.y), .is_result = true}},
          .size_key = size_key_of(problem)};
}

void run_trial(const Problem& problem, const Algorithm& algorithm, void* stream, std::span<void* const> operands,
               void* workspace) {
  algorithm.run(stream,
                {.x = operands[0],
                 .weight = operands[1],
                 .bias = problem.bias ? operands[2] : nullptr,
                 .residual = problem.has_residual ? operands[3] : nullptr,
                 .shortcut = operands[4],
                 .shortcut_weight = operands[5],
                 .y = operands[6]},
                workspace);
}

}  // namespace

std::string versions() {
  return fmt::format("convolutions {}.{}.{}, sums in f32, engines tried, {}, {}", kHopperRevision, kNarrowRevision,
                     kFewRowsRevision, cudnn::why_not_installed() ? "without cuDNN" : cudnn::version_text(),
                     cublaslt::version_text());
}

Algorithm make_algorithm_in_two(const Problem& problem, const DeviceTarget& target) {
  Problem gemm{.dtype = problem.dtype,
               .has_constant_weight = problem.has_constant_weight,
               .layout = problem.layout,
               .x = shortcut_shape(problem),
               .weight = {problem.y[1], problem.shortcut, 1, 1},
               .y = problem.y};
  Problem rest = problem;
  rest.shortcut = 0, rest.has_residual = true;
  const Algorithm first = find_algorithm(gemm, target);
  Algorithm made = find_algorithm(rest, target);
  const std::size_t made_bytes = part_bytes(bytes_of(problem, problem.y));
  made.name = fmt::format("{}{} and then {}", kInTwo, first.name, made.name);
  made.workspace_bytes = made_bytes + std::max(first.workspace_bytes, made.workspace_bytes);
  made.run = [=, run = std::move(made.run)](void* stream, const Operands& operands, void* workspace) {
    auto* const others = static_cast<std::byte*>(workspace) + made_bytes;
    first.run(stream, {.x = operands.shortcut, .weight = operands.shortcut_weight, .y = workspace}, others);
    Operands last = operands;
    last.residual = workspace;
    run(stream, last, others);
  };
  return made;
}

namespace {

/// From [o, i, kh, kw] to the same in memory order [o, kh, kw, i].
Packing channels_last(const TensorType& weight) {
  const TensorType last{weight.dtype, weight.shape, Layout::kChannelsLast};
  const cuda::CopyRows rows =
      cuda::copy_rows(weight.dtype, weight.shape, row_major_strides(weight.shape), dense_operand(last).strides);
  return {.layout = "channels last", .bytes = weight.bytes(), .pack = [rows](void* stream, const void* from, void* to) {
            cuda::launch_copy(stream, rows, from, to);
          }};
}

/// Nothing if the algorithm takes the weight as it is.
std::optional<Packing> packing_of(const Algorithm& algorithm, const Problem& problem) {
  if (algorithm.packing) return algorithm.packing;
  const bool is_pixel = problem.weight[2] * problem.weight[3] == 1;  // then both layouts are the same
  if (is_pixel || problem.layout != Layout::kChannelsLast) return std::nullopt;
  return channels_last({problem.dtype, problem.weight});
}

/// A copy of dense images from one layout to the other.
cuda::CopyRows to_layout(DType dtype, const Shape& image, Layout from, Layout to) {
  return cuda::copy_rows(dtype, image, dense_operand({dtype, image, from}).strides,
                         dense_operand({dtype, image, to}).strides);
}

/// The algorithm for row-major images by that for channels-last ones, between two copies.
Algorithm make_algorithm_channels_last(const Problem& problem, const DeviceTarget& target) {
  Problem last = problem;
  last.layout = Layout::kChannelsLast;
  Algorithm made = find_algorithm(last, target);
  made.packing = packing_of(made, last);
  const std::size_t x_bytes = part_bytes(bytes_of(problem, problem.x)),
                    y_bytes = part_bytes(bytes_of(problem, problem.y));
  const cuda::CopyRows enter = to_layout(problem.dtype, problem.x, Layout::kRowMajor, Layout::kChannelsLast);
  const cuda::CopyRows leave = to_layout(problem.dtype, problem.y, Layout::kChannelsLast, Layout::kRowMajor);
  made.name = fmt::format("channels last: {}", made.name);
  made.workspace_bytes += x_bytes + y_bytes;
  made.run = [=, run = std::move(made.run)](void* stream, const Operands& operands, void* workspace) {
    std::byte *const x = static_cast<std::byte*>(workspace), *const y = x + x_bytes;
    cuda::launch_copy(stream, enter, operands.x, x);
    Operands inner = operands;
    inner.x = x, inner.y = y;
    run(stream, inner, y + y_bytes);
    cuda::launch_copy(stream, leave, y, operands.y);
  };
  return made;
}

/// A library's, best guess first.
std::vector<Algorithm> library_algorithms(const Problem& problem, const DeviceTarget& target, bool is_timed) {
  if (problem.shortcut > 0) return {make_algorithm_in_two(problem, target)};
  if (is_pointwise(problem)) return {make_pointwise_algorithm(problem, target)};
  return cudnn::make_algorithms(problem, *target.backend, is_timed);
}

std::vector<Algorithm> list_algorithms(const Problem& problem, const DeviceTarget& target, bool is_timed) {
  std::vector<Algorithm> algorithms;
  if (!why_not_narrow(problem, target)) algorithms = make_direct_algorithms(problem, target);
  if (has_few_rows(problem)) algorithms.push_back(make_gemv_algorithm(problem));
  if (is_timed ? !why_not_hopper(problem, target) : problem.shortcut > 0)
    std::ranges::move(make_hopper_algorithms(problem), std::back_inserter(algorithms));
  if (!is_timed && !algorithms.empty()) return algorithms;
  try {
    std::ranges::move(library_algorithms(problem, target, is_timed), std::back_inserter(algorithms));
  } catch (const OutOfMemory&) {
    throw;
  } catch (const Error&) {  // no engine for this, or one that lacks a library of its own (NVRTC)
    if (!algorithms.empty()) return algorithms;
    if (!problem.is_transposed || problem.layout == Layout::kChannelsLast) throw;
    algorithms.push_back(make_algorithm_channels_last(problem, target));  // row-major ones of 16 bits have no engine
  }
  return algorithms;
}

std::optional<Algorithm> find_known(const Problem& problem, const DeviceTarget& target, const std::string& name) {
  if (!why_not_narrow(problem, target))
    for (Algorithm& algorithm : make_direct_algorithms(problem, target))
      if (algorithm.name == name) return std::move(algorithm);
  if (!why_not_hopper(problem, target))
    if (std::optional<Algorithm> algorithm = find_hopper_algorithm(problem, name)) return algorithm;
  if (problem.shortcut > 0)  // each of the two searches for its own algorithm
    return name.starts_with(kInTwo) ? std::optional(make_algorithm_in_two(problem, target)) : std::nullopt;
  if (is_pointwise(problem)) {
    if (name == kGemvAlgorithm)
      return has_few_rows(problem) ? std::optional(make_gemv_algorithm(problem)) : std::nullopt;
    if (!name.starts_with(kPointwiseAlgorithm)) return std::nullopt;
    Algorithm algorithm = make_pointwise_algorithm(problem, target);
    return algorithm.name == name ? std::optional(std::move(algorithm)) : std::nullopt;
  }
  return cudnn::why_not_installed() ? std::nullopt : cudnn::find_algorithm(problem, *target.backend, name);
}

/// The algorithm here for the one that was the fastest in another size. The library's algorithm for a GEMM may be
/// another.
std::optional<Algorithm> find_nearest(const Problem& problem, const DeviceTarget& target, const std::string& name) {
  if (is_pointwise(problem) && name.starts_with(kPointwiseAlgorithm)) return make_pointwise_algorithm(problem, target);
  if (name.starts_with(kHopperAlgorithm))
    return why_not_hopper(problem, target) ? std::nullopt : find_good_hopper_algorithm(problem, name);
  return find_known(problem, target, name);
}

/// Kernels of ours, or else the one that the library guesses: nothing that is compiled first.
std::vector<Algorithm> guess_algorithms(const Problem& problem, const DeviceTarget& target) {
  const bool takes_hopper = !why_not_hopper(problem, target);
  if (takes_hopper && why_not_narrow(problem, target) && !is_pointwise(problem)) return make_hopper_algorithms(problem);
  try {
    return list_algorithms(problem, target, false);
  } catch (const OutOfMemory&) {
    throw;
  } catch (const Error&) {  // a library that is not there
    if (!takes_hopper) throw;
    return make_hopper_algorithms(problem);
  }
}

}  // namespace

Algorithm find_algorithm(const Problem& given, const DeviceTarget& target) {
  const Problem problem = is_pointwise(given) ? in_lines(given) : given;
  const bool is_timed = flops_of(problem) >= kLeastFlops;
  return tune::fastest_algorithm<Algorithm>(
      *target.backend->context<cuda::TunerOf<versions>>(), work_of(problem), is_timed, target.new_work,
      {.list = [&] { return list_algorithms(problem, target, is_timed); },
       .find = [&](const std::string& name) { return find_known(problem, target, name); },
       .run = [&](const auto&... trial) { run_trial(problem, trial...); },
       .find_nearest = [&](const std::string& name) { return find_nearest(problem, target, name); },
       .guess = [&] { return guess_algorithms(problem, target); }});
}

EpilogueForms forms_of(Op op) {
  if (op == Op::kConvTranspose2d) return EpilogueForms::kNone;
  return op == Op::kConv2d ? EpilogueForms::kBoth : EpilogueForms::kActivation;
}

Support check(const OpSpec& spec, const Target& target) {
  const DType dtype = spec.inputs[0].dtype;
  if (!cuda::is_element(dtype)) return Rejection{fmt::format("takes f32, bf16 or f16, not {}", dtype)};
  if (Support rejection = check_epilogue(spec, forms_of(spec.op))) return rejection;
  if (spec.input(Role::kWeight).layout != Layout::kRowMajor) return Rejection{"takes row-major weights only"};
  const Problem problem = problem_of(spec);
  if (problem.shortcut > 0) return why_not_hopper(problem, target);
  std::optional<std::string> reason = is_pointwise(problem) ? std::nullopt : cudnn::why_not_installed();
  if (reason && why_not_hopper(problem, target) && why_not_narrow(problem, target))
    return Rejection{*std::move(reason)};
  return std::nullopt;
}

KernelPlan bind(const Problem& problem, Algorithm algorithm) {
  const std::optional<Packing> packing = packing_of(algorithm, problem);
  const bool packs = packing && problem.has_constant_weight, copies = packing && !packs;
  KernelPlan made{
      .launch = {}, .scratch_bytes = algorithm.workspace_bytes, .implementation = std::move(algorithm.name)};
  if (packs) {
    made.packed = {{1, packing->layout, packing->bytes}};
    made.pack = [pack = packing->pack](Stream& stream, DevicePointer from, DevicePointer to) {
      pack(stream.native_handle(), from.address(), to.address());
    };
  }
  const std::size_t copy_bytes = copies ? part_bytes(packing->bytes) : 0;
  made.scratch_bytes += copy_bytes;
  const auto pack = copies ? packing->pack : nullptr;
  const std::size_t others = problem.bias ? 3 : 2;  // inputs before the residual
  made.launch = [=, has_shortcut = problem.shortcut > 0, has_bias = problem.bias.has_value(),
                 has_residual = problem.has_residual,
                 run = std::move(algorithm.run)](const LaunchArguments& arguments) {
    void* const stream = arguments.stream.native_handle();
    auto* const scratch = arguments.scratch_memory<std::byte>();
    if (copies) pack(stream, arguments.input(1), scratch);
    run(stream,
        {.x = arguments.input(0),
         .weight = copies ? scratch : arguments.input(1),
         .bias = has_bias ? arguments.input(2) : nullptr,
         .residual = has_residual ? arguments.input(others) : nullptr,
         .shortcut = has_shortcut ? arguments.input(3) : nullptr,
         .shortcut_weight = has_shortcut ? arguments.input(4) : nullptr,
         .y = arguments.output(0)},
        scratch + copy_bytes);
  };
  return made;
}

KernelPlan plan_fastest(const Problem& problem, const DeviceTarget& target) {
  return bind(problem, find_algorithm(problem, target));
}

KernelPlan plan(const KernelBinding& binding) {
  return cuda::or_cannot_prepare([&] { return plan_fastest(problem_of(binding.spec), binding.target); });
}

}  // namespace headroom::convolutions
