// random on a GPU: y[b, ...], element i of image b a function of key[b], offset and i alone
// (base/tensors/random.hpp), in f32
//
// A thread draws a block of four. The arithmetic is in double precision without contracted multiply-adds (this file
// is compiled with --fmad=false), which gives the same bits as a host.
// Bytes      y written once. FLOPs: 60 an element, in double precision.

#include "base/tensors/random_inl.hpp"
#include "kernels/core/cuda/cuda_kernel.hpp"
#include "kernels/core/cuda/device.cuh"
#include "kernels/core/cuda/launch.cuh"

namespace headroom::cuda {
namespace {

constexpr int kThreads = 256;

struct Random {
  std::int64_t images, elements;
  std::int64_t blocks;  ///< of four elements, of an image
  bool is_normal, has_wide_keys, has_wide_offset;
};

__device__ std::uint64_t integer_at(const void* data, bool is_wide, std::int64_t index) {
  const std::int64_t value = is_wide ? static_cast<const std::int64_t*>(data)[index]
                                     : std::int64_t{static_cast<const std::int32_t*>(data)[index]};
  return static_cast<std::uint64_t>(value);
}

__global__ void __launch_bounds__(kThreads)
    random_kernel(Random random, const void* keys, const void* offset, float* y) {
  wait_for_previous();
  const std::int64_t index = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  const Division at = divide(index, random.blocks);
  if (at.quotient >= random.images) return;
  const random_inl::Words words =
      random_inl::words_of(integer_at(keys, random.has_wide_keys, at.quotient),
                           integer_at(offset, random.has_wide_offset, 0), static_cast<std::uint64_t>(at.remainder));
  const random_inl::Four four = random.is_normal ? random_inl::normals(words) : random_inl::uniforms(words);
  const std::int64_t first = 4 * at.remainder;
  float* const to = y + at.quotient * random.elements + first;
  for (int i = 0; i < 4; ++i)
    if (first + i < random.elements) to[i] = four.value[i];
}

KernelPlan plan(const KernelBinding& binding) {
  const Shape& shape = binding.outputs[0].type.shape;
  const Random random{.images = shape[0],
                      .elements = shape.numel() / shape[0],
                      .blocks = divide_up(shape.numel() / shape[0], 4),
                      .is_normal = binding.spec.attributes[attr::kDistribution] == Distribution::kNormal,
                      .has_wide_keys = binding.inputs[0].type.dtype == DType::kI64,
                      .has_wide_offset = binding.inputs[1].type.dtype == DType::kI64};
  const std::int64_t threads = random.images * random.blocks;
  return {[=](const LaunchArguments& arguments) {
    launch_early(random_kernel,
                 {blocks_along_x(divide_up(threads, kThreads)), kThreads,
                  static_cast<cudaStream_t>(arguments.stream.native_handle())},
                 random, arguments.input(0), arguments.input(1), arguments.output<float>(0));
    check_launched("cuda random kernel");
  }};
}

}  // namespace
}  // namespace headroom::cuda

namespace headroom {

const Kernel& cuda_random() {
  static const cuda::CudaKernel kernel({.name = "cuda.random",
                                        .op = Op::kRandom,
                                        .supports = supports_all_types,
                                        .strides = StrideRule::kDense,
                                        .plan = cuda::plan});
  return kernel;
}

}  // namespace headroom
