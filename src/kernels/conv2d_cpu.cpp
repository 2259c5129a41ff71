// conv2d: y[b, o, i, j] = bias[o] + sum_{c, u, v} weight[o, c, u, v] * x[b, c, i*stride + u - pad, j*stride + v - pad]
//
// Shapes     x[b, c, h, w], weight[o, c, kh, kw], bias[o] -> y[b, o, oh, ow], oh = (h + 2*pad - kh) / stride + 1;
//            x is zero outside the image.
// Dtypes     f32; bf16 with f32 sums, where the CPU has AVX-512.
// Layout     x and y row-major or both channels-last, without gaps. Weights of the checkpoint are packed once into
//            oneDNN's blocks; others are converted in every run.
// Alignment  that of the dtype.
// Bytes      (x + weight + bias + y) * size
// FLOPs      2 * b * o * oh * ow * c * kh * kw + one an output for the bias
//
// Tried: on row-major images oneDNN's gemm (im2col) is slower than its blocked kernels, conversion of both images
// included. Only with AVX-512, and where a filter holds few elements or is 1x1, is the gemm faster, because then the
// conversions weigh more than the product. Channels-last images need no conversion and beat both.

#include <algorithm>
#include <memory>
#include <utility>

#include "kernels/onednn/engine.hpp"

namespace headroom {
namespace {

/// Filters up to this size run faster as a gemm on row-major images, where there is AVX-512.
constexpr std::int64_t kGemmFilter = 36;

using ConvolutionDesc = dnnl::convolution_forward::primitive_desc;

dnnl::memory::desc dense_desc(const TensorType& type) { return onednn::describe(dense_operand(type)); }

/// Whether images are best convolved as they lie.
bool keeps_layout(const OpSpec& spec, const Target& target) {
  if (spec.inputs[0].layout == Layout::kChannelsLast) return true;
  const Shape& weight = spec.inputs[1].shape;  // [o, c, kh, kw]
  const bool pointwise = weight[2] * weight[3] == 1;
  return target.cpu_isa >= CpuIsa::kAvx512 && (pointwise || weight[1] * weight[2] * weight[3] <= kGemmFilter);
}

ConvolutionDesc make_convolution(const OpSpec& spec, bool as_they_lie) {
  const auto image = [&](const TensorType& type) {
    return as_they_lie ? dense_desc(type) : onednn::describe_any(type.dtype, type.shape);
  };
  const dnnl::memory::dims strides(2, spec.attributes.get_int("stride"));
  const dnnl::memory::dims padding(2, spec.attributes.get_int("padding"));
  const auto weight = onednn::describe_any(spec.inputs[1].dtype, spec.inputs[1].shape);
  return {dnnl::convolution_forward::desc(dnnl::prop_kind::forward_inference, dnnl::algorithm::convolution_direct,
                                          image(spec.inputs[0]), weight, dense_desc(spec.inputs[2]),
                                          image(spec.outputs[0]), strides, padding, padding),
          onednn::attributes_with_user_scratch(), onednn::cpu_engine()};
}

/// As images lie where that is best; of a few of the smallest oneDNN has only its reference there.
ConvolutionDesc choose_convolution(const OpSpec& spec, const Target& target) {
  if (keeps_layout(spec, target)) {
    ConvolutionDesc kept = make_convolution(spec, true);
    if (!onednn::is_reference(kept.impl_info_str())) return kept;
  }
  return make_convolution(spec, false);
}

/// The reorder of one operand between the caller's layout and oneDNN's; the copy lies in scratch. Without a call the
/// layouts are equal.
struct Reorder {
  std::shared_ptr<const onednn::Call> call = nullptr;
  std::size_t copy_offset = 0;
  std::size_t scratch_offset = 0;

  void run(const void* from, void* to, std::byte* scratch) const {
    call->run({.src = from, .dst = to, .scratch = scratch + scratch_offset});
  }
  /// Where an input lies for oneDNN: in its copy, made now, or as it is.
  [[nodiscard]] const void* of_input(const void* input, std::byte* scratch) const {
    if (call == nullptr) return input;
    run(input, scratch + copy_offset, scratch);
    return scratch + copy_offset;
  }
};

KernelPlan plan(const KernelBinding& binding) {
  const OpSpec& spec = binding.spec;
  const ConvolutionDesc convolution = choose_convolution(spec, binding.target);
  KernelPlan made{.launch = {}, .implementation = convolution.impl_info_str()};
  const auto take = [&](std::size_t bytes) {
    return std::exchange(made.scratch_bytes, made.scratch_bytes + onednn::whole_lines(bytes));
  };
  const auto plan_reorder = [&](const dnnl::memory::desc& from, const dnnl::memory::desc& to) {
    if (from == to) return Reorder{};
    const dnnl::reorder::primitive_desc reorder(onednn::cpu_engine(), from, onednn::cpu_engine(), to,
                                                onednn::attributes_with_user_scratch());
    return Reorder{.call = std::make_shared<const onednn::Call>(reorder, binding.threads),
                   .copy_offset = take(std::max(from.get_size(), to.get_size())),  // one of them is the copy
                   .scratch_offset = take(reorder.scratchpad_desc().get_size())};
  };
  const auto call = std::make_shared<const onednn::Call>(convolution, binding.threads);
  const std::size_t call_offset = take(convolution.scratchpad_desc().get_size());
  const Reorder x = plan_reorder(dense_desc(spec.inputs[0]), convolution.src_desc());
  const Reorder y = plan_reorder(convolution.dst_desc(), dense_desc(spec.outputs[0]));
  Reorder weight;
  if (spec.has_weight_at(1))
    onednn::pack_weight(made, 1, dense_desc(spec.inputs[1]), convolution.weights_desc());
  else
    weight = plan_reorder(dense_desc(spec.inputs[1]), convolution.weights_desc());
  made.launch = [=](const LaunchArguments& arguments) {
    auto* const scratch = static_cast<std::byte*>(arguments.scratch);
    void* const to = y.call ? scratch + y.copy_offset : arguments.outputs[0];
    call->run({.src = x.of_input(arguments.inputs[0], scratch),
               .weights = weight.of_input(arguments.inputs[1], scratch),
               .bias = arguments.inputs[2],
               .dst = to,
               .scratch = scratch + call_offset});
    if (y.call) y.run(to, arguments.outputs[0], scratch);
  };
  return made;
}

Support supports(const OpSpec& spec, const Target& target) {
  for (const TensorType& input : spec.inputs)
    if (Support rejection = onednn::check_dtype(input.dtype, target)) return rejection;
  if (spec.inputs[1].layout != Layout::kRowMajor) return Rejection{"takes row-major weights only"};
  if (Support rejection = onednn::check_sizes(spec)) return rejection;
  return onednn::find_fast_implementation(target, [&] { return choose_convolution(spec, target); });
}

const Listed<LibraryKernel> kConv2d({.name = "onednn.conv2d",
                                     .op = Op::kConv2d,
                                     .supports = supports,
                                     .strides_output = false,
                                     .plan = onednn::planned<plan>});

}  // namespace
}  // namespace headroom
