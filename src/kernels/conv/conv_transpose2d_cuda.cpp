// conv_transpose2d on a GPU: y = what a conv2d that makes x has as the gradient of its image, + bias
//
// fastest.conv_transpose2d  by the fastest way there is, as measured: cuDNN's engines for gradients of images, and on Hopper
//                           our own kernels where it doubles an image (convolution/hopper.cu, narrow.cu).
// cuda.conv_transpose2d     what those do not take: convolution_cuda.cu.
//
// Shapes     x[b, c, h, w], weight[c, o/groups, kh, kw], bias[o] or none -> y[b, o, oh, ow]
// Dtypes     f32 (on tensor cores where the attribute tf32 allows it), bf16 and f16, with f32 sums; the bias the same or
//            f32.
// Layout     images row-major or both channels-last, without gaps.
// Bytes      (x + weight + bias + y) * size
// FLOPs      2 * b * c * h * w * o/groups * kh * kw + one an output for the bias

#include "kernels/conv/convolution.hpp"

namespace headroom {
namespace {

const Listed<LibraryKernel> kConvTranspose2d({.name = "fastest.conv_transpose2d",
                                              .op = Op::kConvTranspose2d,
                                              .device = DeviceKind::kCuda,
                                              .supports = convolutions::check,
                                              .strides_output = false,
                                              .plan = convolutions::plan});

}  // namespace
}  // namespace headroom
