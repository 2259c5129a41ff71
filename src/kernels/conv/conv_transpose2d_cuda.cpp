// conv_transpose2d on a GPU: y = the gradient of the image of a conv2d whose results have the shape of x, + bias
//
// fastest.conv_transpose2d  the fastest algorithm, as measured: cuDNN's engines for gradients of images, and on Hopper
//                           Headroom's own kernels if it doubles an image (conv/hopper.cu, conv_64to64.cu).
// cuda.conv_transpose2d     all that fastest.conv_transpose2d does not support: convolution_cuda.cu.
//
// Shapes     x[b, c, h, w], weight[c, o/groups, kh, kw], bias[o] or none -> y[b, o, oh, ow]
// Dtypes     f32 (on tensor cores where the attribute tf32 allows it), bf16 and f16, with f32 sums; the bias the
//            same or f32.
// Layout     images row-major or both channels-last, without gaps. cuDNN has no engine for row-major images of 16 bits:
//            they are copied to channels-last ones and back.
// Epilogue   none: cuDNN's engines for gradients were not tried with one, and its sums in f32 take more bytes than an
//            elementwise op of 16 bits.
// Bytes      (x + weight + bias + y) * size
// FLOPs      2 * b * c * h * w * o/groups * kh * kw + one an output for the bias

#include "kernels/conv/convolution.hpp"
#include "kernels/conv/image_form.hpp"

namespace headroom {

const Kernel& fastest_conv_transpose2d() {
  static const LibraryKernel kernel({.name = "fastest.conv_transpose2d",
                                     .op = Op::kConvTranspose2d,
                                     .device = DeviceKind::kCuda,
                                     .supports = convolutions::check,
                                     .strides_output = false,
                                     .images = cuda_images,
                                     .plan = convolutions::plan});
  return kernel;
}

}  // namespace headroom
