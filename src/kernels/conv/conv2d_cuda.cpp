// conv2d and conv2d_shortcut on a GPU: y = epilogue(sums of weight * x + bias), and with sums of
// shortcut_weight * shortcut added to these.
//
// fastest.conv2d   the fastest algorithm, as measured: cuDNN's engines, cuBLASLt's GEMM for 1x1 convolutions of
//                  channels-last images (conv/pointwise.hpp), and on Hopper Headroom's own kernels (conv/hopper.hpp,
//                  direct.hpp).
// fastest.conv2d_shortcut   Headroom's own kernel for Hopper, or two of the algorithms above, whichever was measured to
//                           be faster.
// cuda.conv2d      all that fastest.conv2d does not support: convolution_cuda.cu.
//
// Shapes     x[b, c, h, w], weight[o, c/groups, kh, kw], bias[o] or none -> y[b, o, oh, ow]; of the second op also
//            shortcut[b, d, oh, ow] with shortcut_weight[o, d, 1, 1]
// Epilogue   an activation, before which a conv2d may add a residual as y.
// Dtypes     f32 (on tensor cores where the attribute tf32 allows it), bf16 and f16, with f32 sums; the bias the
//            same or f32.
// Layout     images row-major or all channels-last, without gaps.
// Bytes      (x + weight + bias + residual or shortcut and shortcut_weight + y) * size
// FLOPs      2 * b * o * oh * ow * (c/groups * kh * kw + d) + one an output each for bias and residual + the
//            activation's

#include "kernels/conv/convolution.hpp"
#include "kernels/conv/image_form.hpp"

namespace headroom {

const Kernel& fastest_conv2d() {
  static const LibraryKernel kernel({.name = "fastest.conv2d",
                                     .op = Op::kConv2d,
                                     .device = DeviceKind::kCuda,
                                     .supports = convolutions::check,
                                     .strides_output = false,
                                     .images = cuda_images,
                                     .plan = convolutions::plan});
  return kernel;
}

const Kernel& fastest_conv2d_shortcut() {
  static const LibraryKernel kernel({.name = "fastest.conv2d_shortcut",
                                     .op = Op::kConv2dShortcut,
                                     .device = DeviceKind::kCuda,
                                     .supports = convolutions::check,
                                     .strides_output = false,
                                     .plan = convolutions::plan});
  return kernel;
}

}  // namespace headroom
