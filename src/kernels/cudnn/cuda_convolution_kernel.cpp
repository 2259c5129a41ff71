#include <utility>

#include "base/divide_up.hpp"
#include "base/out_of_memory.hpp"
#include "ir/activation.hpp"
#include "ir/convolution.hpp"
#include "kernels/cuda/copy_rows.hpp"
#include "kernels/cudnn/convolution_kernel.hpp"

namespace headroom::cudnn {
namespace {

constexpr std::size_t kAlignment = 256;

/// From [o, i, kh, kw] to what lies in memory as [o, kh, kw, i].
cuda::CopyRows channels_last(const TensorType& weight) {
  const TensorType last{weight.dtype, weight.shape, Layout::kChannelsLast};
  return cuda::copy_rows(weight.dtype, weight.shape, row_major_strides(weight.shape), dense_operand(last).strides);
}

}  // namespace

ConvolutionProblem problem_of(const OpSpec& spec) {
  ConvolutionProblem problem{.is_transposed = spec.op == Op::kConvTranspose2d,
                             .dtype = spec.inputs[0].dtype,
                             .has_residual = spec.inputs.size() > 3,
                             .rounds_to_tf32 = rounds_to_tf32(spec),
                             .layout = spec.inputs[0].layout,
                             .x = spec.inputs[0].shape,
                             .weight = spec.inputs[1].shape,
                             .y = spec.outputs[0].shape,
                             .how = convolution_of(spec.attributes)};
  if (spec.inputs.size() > 2) problem.bias = spec.inputs[2].dtype;
  if (!problem.is_transposed) problem.activation = activation_of(spec.attributes);
  return problem;
}

Support check_convolution(const OpSpec& spec, const Target& /*target*/) {
  const DType dtype = spec.inputs[0].dtype;
  if (!cuda::is_element(dtype)) return Rejection{fmt::format("takes f32, bf16 or f16, not {}", dtype)};
  if (spec.inputs[1].layout != Layout::kRowMajor) return Rejection{"takes row-major weights only"};
  if (std::optional<std::string> reason = why_not_installed()) return Rejection{std::move(*reason)};
  return std::nullopt;
}

KernelPlan plan_convolution(const KernelBinding& binding) {
  const OpSpec& spec = binding.spec;
  const ConvolutionProblem problem = problem_of(spec);
  std::shared_ptr<const Convolution> convolution;
  try {
    convolution = std::make_shared<const Convolution>(problem, cuda::backend_of(binding));
  } catch (const OutOfMemory&) {
    throw;
  } catch (const Error& error) {  // no engine for this, or one that lacks a library of its own (NVRTC)
    throw CannotPrepare(error.what());
  }
  KernelPlan made{
      .launch = {}, .scratch_bytes = convolution->workspace_bytes(), .implementation = convolution->implementation()};
  const TensorType& weight = spec.inputs[1];
  const bool is_pixel = weight.shape[2] * weight.shape[3] == 1;  // then both layouts are the same
  const bool converts = problem.layout == Layout::kChannelsLast && !is_pixel;
  const bool packs = converts && spec.has_weight_at(1), copies = converts && !packs;
  const cuda::CopyRows rows = channels_last(weight);
  if (packs) {
    made.packed = {{1, "channels last", weight.bytes()}};
    made.pack = [=](Stream& stream, DevicePointer from, DevicePointer to) {
      cuda::launch_copy(stream.native_handle(), rows, from.address(), to.address());
    };
  }
  const std::size_t copy_bytes = copies ? divide_up(weight.bytes(), kAlignment) * kAlignment : 0;
  made.scratch_bytes += copy_bytes;
  made.launch = [=](const LaunchArguments& arguments) {
    void* const stream = arguments.stream.native_handle();
    auto* const scratch = arguments.scratch_memory<std::byte>();
    if (copies) cuda::launch_copy(stream, rows, arguments.input(1), scratch);
    convolution->run(stream,
                     {.x = arguments.input(0),
                      .weight = copies ? scratch : arguments.input(1),
                      .bias = arguments.optional_input(2),
                      .residual = arguments.optional_input(3),
                      .y = arguments.output(0)},
                     scratch + copy_bytes);
  };
  return made;
}

}  // namespace headroom::cudnn
