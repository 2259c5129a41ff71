// conv2d on a GPU: y = activation(sums of weight * x + bias + residual)
//
// cublaslt.conv2d  1x1 on channels-last images, with stride 1 and without padding or groups: a linear over pixels, with
//                  its bias and a residual, or the tanh form of gelu, in the product; what is left of these by a kernel behind it.
// fastest.conv2d   the rest, by the fastest way there is, as measured: cuDNN's engines, and on Hopper our own kernel
//                  (convolution/hopper.cu).
// cuda.conv2d      what neither takes: convolution_cuda.cu.
//
// Shapes     x[b, c, h, w], weight[o, c/groups, kh, kw], bias[o] or none, residual as y or none -> y[b, o, oh, ow]
// Dtypes     f32 (on tensor cores where the attribute tf32 allows it), bf16 and f16, with f32 sums; the bias the same or,
//            but for cublaslt, f32.
// Layout     images row-major or all channels-last, without gaps.
// Bytes      (x + weight + bias + residual + y) * size
// FLOPs      2 * b * o * oh * ow * c/groups * kh * kw + one an output each for bias and residual + the activation's

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "ir/activation.hpp"
#include "kernels/convolution/convolution.hpp"
#include "kernels/convolution_epilogue_cuda.hpp"
#include "kernels/cublaslt/product.hpp"
#include "kernels/cuda/cuda_kernel.hpp"
#include "kernels/support.hpp"

namespace headroom {
namespace {

Support supports_pixels(const OpSpec& spec, const Target& target) {
  const Builder::Convolution how = convolutions::problem_of(spec).how;
  const Shape& weight = spec.inputs[1].shape;
  const bool is_product = spec.inputs[0].layout == Layout::kChannelsLast && weight[2] == 1 && weight[3] == 1 &&
                          how.stride == std::array<std::int64_t, 2>{1, 1} && std::ranges::max(how.padding) == 0 &&
                          how.groups == 1;
  if (!is_product) return Rejection{"takes 1x1 on channels-last images, with stride 1 and without padding or groups"};
  if (spec.inputs[1].layout != Layout::kRowMajor) return Rejection{"takes row-major weights only"};
  return check_float_product(spec, target);
}

/// Pixels as rows of their channels.
Operand rows_of_pixels(const TensorType& image) {
  const Shape& shape = image.shape;  // [b, c, h, w]
  return dense_operand({image.dtype, Shape{shape[0] * shape[2] * shape[3], shape[1]}});
}

/// With the residual in the product; nothing where the library has no algorithm for that.
std::optional<KernelPlan> plan_added_pixels(const KernelBinding& binding) {
  const OpSpec& spec = binding.spec;
  const Shape &weight = spec.inputs[1].shape, &image = spec.outputs[0].shape;
  const DType dtype = spec.outputs[0].dtype;
  if (spec.inputs.size() < 4 || activation_of(spec.attributes) != Activation::kNone || spec.inputs[2].dtype != dtype)
    return std::nullopt;
  const std::optional<cublaslt::Product> product = cublaslt::Product::find({.dtype = dtype,
                                                                            .c_dtype = dtype,
                                                                            .rounds_to_tf32 = rounds_to_tf32(spec),
                                                                            .m = image[0] * image[2] * image[3],
                                                                            .n = weight[0],
                                                                            .k = weight[1],
                                                                            .a_row = weight[1],
                                                                            .b_row = weight[1],
                                                                            .c_row = weight[0],
                                                                            .has_bias = true,
                                                                            .has_residual = true,
                                                                            .residual_row = weight[0]},
                                                                           cuda::backend_of(binding));
  if (!product) return std::nullopt;
  const auto launch = [product = *product](const LaunchArguments& arguments) {
    product.run(arguments.stream.native_handle(),
                {.a = arguments.input(0),
                 .b = arguments.input(1),
                 .bias = arguments.input(2),
                 .residual = arguments.input(3),
                 .c = arguments.output(0)},
                arguments.scratch_memory());
  };
  return KernelPlan{launch, product->workspace_bytes(), product->implementation()};
}

KernelPlan plan_pixels(const KernelBinding& binding) {
  if (std::optional<KernelPlan> added = plan_added_pixels(binding)) return *std::move(added);
  const OpSpec& spec = binding.spec;
  const bool has_residual = spec.inputs.size() > 3;
  const Shape& weight = spec.inputs[1].shape;
  const Operand x = rows_of_pixels(spec.inputs[0]), y = rows_of_pixels(spec.outputs[0]);
  std::vector<Operand> operands = {x, dense_operand({x.type.dtype, Shape{weight[0], weight[1]}})};
  if (spec.inputs.size() > 2) operands.push_back(binding.inputs[2]);
  OpSpec product{
      .op = Op::kLinear,
      .attributes = Attributes(
          Op::kLinear, {{"activation", has_residual ? std::string("none") : spec.attributes.get_text("activation")},
                        {"tf32", spec.attributes.get_int("tf32")}}),
      .inputs = {},
      .outputs = {y.type},
      .is_weight = {}};
  for (const Operand& operand : operands) product.inputs.push_back(operand.type);
  const std::shared_ptr<const PreparedKernel> linear =
      kernel_named("cublaslt.linear").prepare(product, operands, {&y, 1}, binding.target);
  const cuda::ConvolutionEpilogue after{
      .activation = activation_of(spec.attributes),
      .has_residual = true,
      .dtype = y.type.dtype,
      .bias = y.type.dtype,
      .grid = cuda::longest_grid<3>(y.type.shape, {Shape{0, 0}, y.strides, y.strides})};
  const auto launch = [=, count = operands.size()](const LaunchArguments& arguments) {
    linear->launch({arguments.stream, arguments.inputs.first(count), arguments.outputs, arguments.scratch});
    if (has_residual)
      cuda::launch_convolution_epilogue(arguments.stream.native_handle(), after, nullptr, arguments.input(3),
                                        arguments.output(0));
  };
  return {launch, linear->scratch_bytes(), linear->implementation() + (has_residual ? " + cuda" : "")};
}

const Listed<LibraryKernel> kPixels({.name = "cublaslt.conv2d",
                                     .op = Op::kConv2d,
                                     .tried = Tried::kFirst,
                                     .device = DeviceKind::kCuda,
                                     .supports = supports_pixels,
                                     .strides_output = false,
                                     .plan = plan_pixels});
const Listed<LibraryKernel> kConv2d({.name = "fastest.conv2d",
                                     .op = Op::kConv2d,
                                     .device = DeviceKind::kCuda,
                                     .supports = convolutions::check,
                                     .strides_output = false,
                                     .plan = convolutions::plan});

}  // namespace
}  // namespace headroom
