#include "kernels/image/images_cuda.hpp"

#include "kernels/core/cuda/cuda_kernel.hpp"
#include "kernels/image/planes.hpp"

namespace headroom {
namespace {

using cuda::CudaKernel;
using cuda::Resampling;

Resampling resampling_of(const OpSpec& spec) {
  if (spec.op == Op::kMaxPool2d) return Resampling::kMax;
  if (spec.op == Op::kAvgPool2d) return Resampling::kMean;
  return spec.attributes[attr::kMode] == ResizeMode::kNearest ? Resampling::kNearest : Resampling::kBilinear;
}

KernelPlan plan(const KernelBinding& binding) {
  const Attributes& attributes = binding.spec.attributes;
  const Planes from = planes_of(binding.inputs[0].type), to = planes_of(binding.outputs[0].type);
  const cuda::ResampledImage image{.how = resampling_of(binding.spec),
                                   .dtype = binding.outputs[0].type.dtype,
                                   .outer = to.outer,
                                   .inner = to.inner,
                                   .from_height = from.height,
                                   .from_width = from.width,
                                   .to_height = to.height,
                                   .to_width = to.width,
                                   .window = attributes.has(attr::kWindow) ? attributes[attr::kWindow] : 1};
  return {[image](const LaunchArguments& arguments) {
    cuda::launch_resample(arguments.stream.native_handle(), image, arguments.input(0), arguments.output(0));
  }};
}

KernelTraits of_images(std::string_view name, Op op) {
  return {.name = name, .op = op, .supports = cuda::supports_elements, .strides = StrideRule::kDense, .plan = plan};
}

}  // namespace

std::span<const CudaKernel> cuda_resampling() {
  static const CudaKernel kernels[] = {
      CudaKernel(of_images("cuda.resize2d", Op::kResize2d)),
      CudaKernel(of_images("cuda.max_pool2d", Op::kMaxPool2d)),
      CudaKernel(of_images("cuda.avg_pool2d", Op::kAvgPool2d)),
  };
  return kernels;
}

}  // namespace headroom
