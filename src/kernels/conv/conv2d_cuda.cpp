// conv2d and conv2d_shortcut on a GPU: y = activation(sums of weight * x + bias + residual), where the residual may be sums of
// shortcut_weight * shortcut.
//
// fastest.conv2d   by the fastest way there is, as measured: cuDNN's engines, or of single pixels of channels-last images cuBLASLt's product
//                  (convolution/product.hpp), and on Hopper our own kernels (convolution/hopper.hpp, narrow.hpp).
// fastest.conv2d_shortcut   by our own kernel for Hopper, or in two of the ways above, whichever was measured to be the faster.
// cuda.conv2d      what it does not take: convolution_cuda.cu.
//
// Shapes     x[b, c, h, w], weight[o, c/groups, kh, kw], bias[o] or none, residual as y or none -> y[b, o, oh, ow]; in the place of a
//            residual shortcut[b, d, oh, ow] with shortcut_weight[o, d, 1, 1]
// Dtypes     f32 (on tensor cores where the attribute tf32 allows it), bf16 and f16, with f32 sums; the bias the same or f32.
// Layout     images row-major or all channels-last, without gaps.
// Bytes      (x + weight + bias + residual or shortcut and shortcut_weight + y) * size
// FLOPs      2 * b * o * oh * ow * (c/groups * kh * kw + d) + one an output each for bias and residual + the activation's

#include "kernels/conv/convolution.hpp"

namespace headroom {
namespace {

const Listed<LibraryKernel> kConv2d({.name = "fastest.conv2d",
                                     .op = Op::kConv2d,
                                     .device = DeviceKind::kCuda,
                                     .supports = convolutions::check,
                                     .strides_output = false,
                                     .plan = convolutions::plan});
const Listed<LibraryKernel> kConv2dShortcut({.name = "fastest.conv2d_shortcut",
                                             .op = Op::kConv2dShortcut,
                                             .device = DeviceKind::kCuda,
                                             .supports = convolutions::check,
                                             .strides_output = false,
                                             .plan = convolutions::plan});

}  // namespace
}  // namespace headroom
