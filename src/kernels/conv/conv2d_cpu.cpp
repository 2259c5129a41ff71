// conv2d: y[b, o, i, j] = epilogue(sum_{c, u, v} weight[o, c, u, v] * x[b, c, i*sh + u*dh - top, j*sw + v*dw - left]
//                                  + bias[o])
//
// Shapes     x[b, c, h, w], weight[o, c/groups, kh, kw], bias[o] or none -> y[b, o, oh, ow],
//            oh = (h + top + bottom - dh*(kh - 1) - 1) / sh + 1; x is zero outside the image, and o sees its group's c.
// Dtypes     f32; bf16 with f32 sums and a bias of either, where the CPU has AVX-512.
// Layout     images row-major or all channels-last, without gaps. Weights of the checkpoint are packed once into
//            oneDNN's blocks; others are converted in every run.
// Alignment  that of the dtype.
// Epilogue   a residual as y or none, and then an activation. oneDNN adds to its destination: y may overwrite the
//            residual, or starts as its copy.
// Bytes      (x + weight + bias + residual + y) * size
// FLOPs      2 * b * o * oh * ow * c/groups * kh * kw + one an output each for bias and residual + the activation's
//
// Tried: on row-major images oneDNN's gemm (im2col) is slower than its blocked kernels, conversion of both images
// included. The gemm is faster only with AVX-512, and if a filter holds few elements or is 1x1, because then the
// conversions take longer than the GEMM. Channels-last images need no conversion and beat both.

#include "ir/convolution.hpp"
#include "kernels/conv/image_form.hpp"
#include "kernels/core/support.hpp"
#include "kernels/vendor/onednn/convolution.hpp"

namespace headroom {
namespace {

using onednn::ImageLayout;

/// With AVX-512, filters up to this size run faster as a GEMM on row-major images.
constexpr std::int64_t kGemmFilter = 36;

ImageLayout best_layout(const OpSpec& spec, const Target& target) {
  if (spec.input(Role::kX).layout == Layout::kChannelsLast) return ImageLayout::kGiven;
  const Shape& weight = spec.input(Role::kWeight).shape;  // [o, c/groups, kh, kw]
  const bool is_small = weight[2] * weight[3] == 1 || weight[1] * weight[2] * weight[3] <= kGemmFilter;
  const bool is_gemm = target.cpu_isa >= CpuIsa::kAvx512 && is_small && spec.attributes[attr::kGroups] == 1;
  return is_gemm ? ImageLayout::kGiven : ImageLayout::kBest;
}

dnnl::memory::desc conv2d_filter_of(const OpSpec& spec) {
  return onednn::describe_filter(spec.input(Role::kWeight), spec.attributes[attr::kGroups], /*is_transposed=*/false);
}

/// Whether the result may have rows or columns that see only padding: there oneDNN's brgconv skips the epilogue, or
/// crashes, with AMX always.
bool has_unseen_lines(const OpSpec& spec) {
  const Builder::Convolution how = convolution_of(spec.attributes);  // padding: top, left, bottom, right
  for (const int axis : {0, 1}) {
    const auto at = static_cast<std::size_t>(axis);
    const std::int64_t reach = how.dilation[at] * (spec.input(Role::kWeight).shape[2 + axis] - 1) + 1;
    if (how.padding[at] >= reach || how.padding[at + 2] >= reach) return true;
  }
  return false;
}

/// Whether oneDNN's jit:avx512_core_amx_bf16 (2.6.3) multiplies channels of another group or pixel by 0, so that a NaN
/// or an infinity there reaches the result: it reads 32 channels at a time. With an odd number of channels the other
/// algorithms are wrong, so it stays there. brgconv reads the channels of its group alone.
bool reads_other_channels(const OpSpec& spec) {
  constexpr std::int64_t kTileChannels = 32;
  const std::int64_t channels = spec.input(Role::kWeight).shape[1];  // of a group
  return spec.input(Role::kX).dtype == DType::kBF16 && channels % 2 == 0 && channels % kTileChannels != 0;
}

dnnl::primitive_desc_base make_convolution(const OpSpec& spec, ImageLayout layout) {
  using Forward = dnnl::convolution_forward;
  const auto [strides, dilates, before, after] = onednn::window_of(convolution_of(spec.attributes));
  const auto bias =
      spec.has(Role::kBias) ? onednn::describe(dense_operand(spec.input(Role::kBias))) : dnnl::memory::desc();
  const Forward::desc desc(dnnl::prop_kind::forward_inference, dnnl::algorithm::convolution_direct,
                           onednn::describe_image(spec.input(Role::kX), layout),
                           onednn::any_layout_of(conv2d_filter_of(spec)), bias,
                           onednn::describe_image(spec.outputs[0], layout), strides, dilates, before, after);
  dnnl::post_ops end;
  const EpilogueForm form = *form_of(spec.attributes[attr::kEpilogue]);
  if (form.adds_operand) end.append_sum();
  onednn::append_activation(end, form.activation);
  dnnl::primitive_attr attributes = onednn::attributes_with_user_scratch();
  attributes.set_post_ops(end);
  Forward::primitive_desc made(desc, attributes, onednn::cpu_engine(), /*allow_empty=*/true);
  const bool avoids_brgconv = has_unseen_lines(spec), avoids_amx = reads_other_channels(spec);
  const auto is_avoided = [&](std::string_view name) {
    return (avoids_brgconv && name.starts_with("brgconv")) || (avoids_amx && name == "jit:avx512_core_amx_bf16");
  };
  while (made && is_avoided(made.impl_info_str()))
    if (!made.next_impl()) return {};
  return made;
}

/// oneDNN's depthwise kernel for SSE4.1 crashes where it adds to channels-last images of other than whole vectors.
bool is_broken(const OpSpec& spec, const Target& target, ImageLayout layout) {
  constexpr std::int64_t kVector = 8;
  const std::int64_t groups = spec.attributes[attr::kGroups];
  return target.cpu_isa < CpuIsa::kAvx2 && layout == ImageLayout::kGiven && groups > 1 && groups % kVector != 0;
}

dnnl::primitive_desc_base choose_conv2d(const OpSpec& spec, const Target& target) {
  return onednn::choose_convolution(best_layout(spec, target), [&](ImageLayout layout) {
    return is_broken(spec, target, layout) ? dnnl::primitive_desc_base() : make_convolution(spec, layout);
  });
}

KernelPlan plan_conv2d(const KernelBinding& binding) {
  return onednn::plan_convolution(binding, choose_conv2d(binding.spec, binding.target), conv2d_filter_of(binding.spec));
}

Support supports_conv2d(const OpSpec& spec, const Target& target) {
  if (Support rejection = check_epilogue(spec, EpilogueForms::kBoth)) return rejection;
  if (Support rejection = onednn::check_convolution(spec, target)) return rejection;
  return onednn::find_fast_implementation(target, [&] { return choose_conv2d(spec, target); });
}

}  // namespace

const Kernel& onednn_conv2d() {
  static const LibraryKernel kernel({.name = "onednn.conv2d",
                                     .op = Op::kConv2d,
                                     .supports = supports_conv2d,
                                     .strides_output = false,
                                     .images = cpu_images,
                                     .overwrites_residual = true,
                                     .plan = onednn::planned<plan_conv2d>});
  return kernel;
}

}  // namespace headroom
