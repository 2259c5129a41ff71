// conv_transpose2d: y[b, o, i*sh + u*dh - top, j*sw + v*dw - left] += weight[c, o, u, v] * x[b, c, i, j], from
// bias[o] on
//
// Shapes     x[b, c, h, w], weight[c, o/groups, kh, kw], bias[o] or none -> y[b, o, oh, ow],
//            oh = (h - 1)*sh + dh*(kh - 1) + 1 - top - bottom + the output's padding; o depends on its group's c.
// Dtypes     f32; bf16 with f32 sums and a bias of either, where the CPU has AVX-512.
// Layout     images row-major or both channels-last, without gaps. Weights of the checkpoint are packed once into
//            oneDNN's blocks; others are converted in every run.
// Alignment  that of the dtype.
// Epilogue   none: oneDNN's deconvolution computes one element by element.
// Bytes      (x + weight + bias + y) * size
// FLOPs      2 * b * c * h * w * o/groups * kh * kw + one an output for the bias
//
// With a stride, and between channels-last images, one convolution for each phase of the stride. Otherwise oneDNN's
// deconvolution, the gradient of a convolution with a bias: per multiply-add it takes twice the time.

#include "ir/convolution.hpp"
#include "kernels/conv/image_form.hpp"
#include "kernels/core/support.hpp"
#include "kernels/vendor/onednn/convolution.hpp"
#include "kernels/vendor/onednn/phases.hpp"

namespace headroom {
namespace {

using onednn::ImageLayout;

dnnl::memory::desc conv_transpose2d_filter_of(const OpSpec& spec) {
  return onednn::describe_filter(spec.input(Role::kWeight), spec.attributes[attr::kGroups], /*is_transposed=*/true);
}

dnnl::primitive_desc_base make_deconvolution(const OpSpec& spec, ImageLayout layout) {
  using Forward = dnnl::deconvolution_forward;
  auto [strides, dilates, before, after] = onednn::window_of(convolution_of(spec.attributes));
  const std::vector<std::int64_t>& more = spec.attributes[attr::kOutputPadding];
  for (const std::size_t axis : {0U, 1U}) after[axis] -= more[axis];
  const auto bias =
      spec.has(Role::kBias) ? onednn::describe(dense_operand(spec.input(Role::kBias))) : dnnl::memory::desc();
  const Forward::desc desc(dnnl::prop_kind::forward_inference, dnnl::algorithm::deconvolution_direct,
                           onednn::describe_image(spec.input(Role::kX), layout),
                           onednn::any_layout_of(conv_transpose2d_filter_of(spec)), bias,
                           onednn::describe_image(spec.outputs[0], layout), strides, dilates, before, after);
  return Forward::primitive_desc(desc, onednn::attributes_with_user_scratch(), onednn::cpu_engine(),
                                 /*allow_empty=*/true);
}

/// Whether oneDNN 2.6 is wrong between channels-last images: with 1x1 filters in bf16 over an odd number of channels,
/// where the CPU has units for bf16.
bool is_wrong_in_channels_last(const OpSpec& spec) {
  const Shape& weight = spec.input(Role::kWeight).shape;  // [c, o/groups, kh, kw]
  return spec.input(Role::kX).dtype == DType::kBF16 && weight[2] * weight[3] == 1 && weight[0] % 2 != 0;
}

dnnl::primitive_desc_base choose_conv_transpose2d(const OpSpec& spec) {
  const bool is_channels_last = spec.input(Role::kX).layout == Layout::kChannelsLast;
  return onednn::choose_convolution(
      is_channels_last && !is_wrong_in_channels_last(spec) ? ImageLayout::kGiven : ImageLayout::kBest,
      [&](ImageLayout layout) { return make_deconvolution(spec, layout); });
}

KernelPlan plan_conv_transpose2d(const KernelBinding& binding) {
  if (std::optional<KernelPlan> phases = onednn::plan_phases(binding)) return *std::move(phases);
  return onednn::plan_convolution(binding, choose_conv_transpose2d(binding.spec),
                                  conv_transpose2d_filter_of(binding.spec));
}

Support supports_conv_transpose2d(const OpSpec& spec, const Target& target) {
  if (Support rejection = check_epilogue(spec, EpilogueForms::kNone)) return rejection;
  if (Support rejection = onednn::check_convolution(spec, target)) return rejection;
  return onednn::find_fast_implementation(target, [&] { return choose_conv_transpose2d(spec); });
}

}  // namespace

const Kernel& onednn_conv_transpose2d() {
  static const LibraryKernel kernel({.name = "onednn.conv_transpose2d",
                                     .op = Op::kConvTranspose2d,
                                     .supports = supports_conv_transpose2d,
                                     .strides_output = false,
                                     .images = cpu_images,
                                     .plan = onednn::planned<plan_conv_transpose2d>});
  return kernel;
}

}  // namespace headroom
