// conv2d and conv_transpose2d on any GPU, element by element: for problems that no engine of cuDNN takes, or without
// cuDNN. A model's convolutions do not use it.
//
// Shapes     as in conv2d_cuda.cpp and conv_transpose2d_cuda.cpp
// Dtypes     f32, bf16 or f16, a bias of the same or f32; f32 arithmetic, one rounding
// Layout     any strides
// Bytes      x and weight from cache, once for each multiply-add; y once
//
// A thread computes one element of y, so that neighbouring threads read x at neighbouring pixels.

#include "ir/convolution.hpp"
#include "kernels/conv/convolution.hpp"
#include "kernels/core/cuda/cuda_kernel.hpp"
#include "kernels/core/cuda/device.cuh"
#include "kernels/core/cuda/formula.cuh"
#include "kernels/core/cuda/launch.cuh"

namespace headroom {
namespace {

using cuda::CudaKernel;

constexpr int kThreads = 256;

/// Four axes of an operand: extents and strides in elements.
struct Axes {
  std::int64_t extents[4] = {};
  std::int64_t strides[4] = {};
};

struct Form {
  Axes x = {}, weight = {}, residual = {}, y = {};
  std::int64_t bias_stride = 0;
  std::int64_t stride[2] = {}, dilation[2] = {}, before[2] = {};
  std::int64_t groups = 1;
  bool has_bias = false, has_residual = false;
  Activation activation = Activation::kNone;
};

/// The position in x that tap `tap` of the weight reads for the result at `at`, along one axis of the image;
/// negative if it reads nothing.
template <bool kTransposed>
__device__ __forceinline__ std::int64_t source_of(const Form& form, int axis, std::int64_t at, std::int64_t tap) {
  const std::int64_t extent = form.x.extents[2 + axis];
  if constexpr (kTransposed) {
    const std::int64_t reached = at + form.before[axis] - tap * form.dilation[axis];
    if (reached < 0 || reached % form.stride[axis] != 0) return -1;
    return reached / form.stride[axis] < extent ? reached / form.stride[axis] : -1;
  } else {
    const std::int64_t source = at * form.stride[axis] + tap * form.dilation[axis] - form.before[axis];
    return source < extent ? source : -1;
  }
}

template <bool kTransposed, class T, class S>
__global__ void __launch_bounds__(kThreads)
    convolution_kernel(Form form, const T* x, const T* weight, const S* bias, const T* residual, T* y) {
  cuda::wait_for_previous();
  std::int64_t rest = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  std::int64_t at[4];  // b, o, i, j
  for (int axis = 3; axis > 0; --axis) {
    const cuda::Division division = cuda::divide(rest, form.y.extents[axis]);
    at[axis] = division.remainder;
    rest = division.quotient;
  }
  if (rest >= form.y.extents[0]) return;
  at[0] = rest;

  const std::int64_t group = at[1] / (form.y.extents[1] / form.groups);
  const std::int64_t channels = form.x.extents[1] / form.groups;  // that o hears
  const T* const image = x + at[0] * form.x.strides[0] + group * channels * form.x.strides[1];
  const T* filter = weight;
  if constexpr (kTransposed)
    filter += group * channels * form.weight.strides[0] + at[1] % form.weight.extents[1] * form.weight.strides[1];
  else
    filter += at[1] * form.weight.strides[0];
  constexpr int kChannelAxis = kTransposed ? 0 : 1;
  float sum = 0;
  for (std::int64_t u = 0; u < form.weight.extents[2]; ++u) {
    const std::int64_t row = source_of<kTransposed>(form, 0, at[2], u);
    if (row < 0) continue;
    for (std::int64_t v = 0; v < form.weight.extents[3]; ++v) {
      const std::int64_t column = source_of<kTransposed>(form, 1, at[3], v);
      if (column < 0) continue;
      const T* const pixel = image + row * form.x.strides[2] + column * form.x.strides[3];
      const T* const tap = filter + u * form.weight.strides[2] + v * form.weight.strides[3];
      for (std::int64_t c = 0; c < channels; ++c)
        sum = fmaf(cuda::to_float(pixel[c * form.x.strides[1]]),
                   cuda::to_float(tap[c * form.weight.strides[kChannelAxis]]), sum);
    }
  }
  const auto offset_in = [&](const Axes& axes) {
    return at[0] * axes.strides[0] + at[1] * axes.strides[1] + at[2] * axes.strides[2] + at[3] * axes.strides[3];
  };
  if (form.has_bias) sum += cuda::to_float(bias[at[1] * form.bias_stride]);
  if (form.has_residual) sum += cuda::to_float(residual[offset_in(form.residual)]);
  y[offset_in(form.y)] = cuda::from_float<T>(cuda::activate(form.activation, sum));
}

Axes axes_of(const Operand& operand) {
  Axes axes;
  for (int axis = 0; axis < 4; ++axis) {
    axes.extents[axis] = operand.type.shape[axis];
    axes.strides[axis] = operand.strides[axis];
  }
  return axes;
}

Form form_of(const KernelBinding& binding) {
  const OpSpec& spec = binding.spec;
  const Builder::Convolution how = convolution_of(spec.attributes);
  Form form{.x = axes_of(binding.input(Role::kX)),
            .weight = axes_of(binding.input(Role::kWeight)),
            .y = axes_of(binding.outputs[0]),
            .groups = how.groups};
  for (const int axis : {0, 1}) {
    form.stride[axis] = how.stride[axis];
    form.dilation[axis] = how.dilation[axis];
    form.before[axis] = how.padding[axis];
  }
  form.has_bias = spec.has(Role::kBias);
  if (form.has_bias) form.bias_stride = binding.input(Role::kBias).strides[0];
  const EpilogueForm end = *headroom::form_of(spec.attributes[attr::kEpilogue]);
  form.has_residual = end.adds_operand;
  form.activation = end.activation;
  if (form.has_residual) form.residual = axes_of(binding.inputs.back());
  return form;
}

template <bool kTransposed>
KernelPlan plan(const KernelBinding& binding) {
  const Form form = form_of(binding);
  const TensorType& made = binding.outputs[0].type;
  const DType bias = form.has_bias ? binding.input(Role::kBias).type.dtype : made.dtype;
  constexpr Op kOp = kTransposed ? Op::kConvTranspose2d : Op::kConv2d;
  constexpr std::size_t kX = position_of(kOp, Role::kX), kWeight = position_of(kOp, Role::kWeight);
  constexpr std::size_t kBias = position_of(kOp, Role::kBias);
  return {[=, dtype = made.dtype, elements = made.shape.numel()](const LaunchArguments& arguments) {
    if (elements == 0) return;
    cuda::with_types_of(dtype, bias, [&](auto type, auto side) {
      using T = decltype(type);
      using S = decltype(side);
      cuda::launch_early(convolution_kernel<kTransposed, T, S>,
                         {cuda::blocks_along_x(divide_up(elements, kThreads)), kThreads,
                          static_cast<cudaStream_t>(arguments.stream.native_handle())},
                         form, arguments.input<T>(kX), arguments.input<T>(kWeight),
                         form.has_bias ? arguments.input<S>(kBias) : nullptr,
                         form.has_residual ? arguments.input<T>(form.has_bias ? kBias + 1 : kBias) : nullptr,
                         arguments.output<T>(0));
    });
    cuda::check_launched("cuda convolution kernel");
  }};
}

/// The same epilogues as the fast kernels, so that none makes this one the only choice.
Support supports(const OpSpec& spec) {
  if (Support rejection = check_epilogue(spec, convolutions::forms_of(spec.op))) return rejection;
  return cuda::supports_elements(spec);
}

}  // namespace

const Kernel& cuda_conv2d() {
  static const CudaKernel kernel({.name = "cuda.conv2d",
                                  .op = Op::kConv2d,
                                  .supports = supports,
                                  .strides = StrideRule::kAny,
                                  .plan = plan<false>});
  return kernel;
}

const Kernel& cuda_conv_transpose2d() {
  static const CudaKernel kernel({.name = "cuda.conv_transpose2d",
                                  .op = Op::kConvTranspose2d,
                                  .supports = supports,
                                  .strides = StrideRule::kAny,
                                  .plan = plan<true>});
  return kernel;
}

}  // namespace headroom
