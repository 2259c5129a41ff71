// Normal numbers drawn where they are needed: a block of four is a function of its number alone, so a thread takes one.
// The transform is in double precision without contracted multiply-adds (this file is compiled with --fmad=false),
// which gives the same bits as a host: 60 operations an element, 0.7 T of them for a model of 11.9 G weights.

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

#include "backends/cuda/early_launch.cuh"
#include "backends/cuda/fill_normal.cuh"
#include "base/tensors/random_inl.hpp"

namespace headroom::cuda {
namespace {

constexpr int kThreads = 256;
constexpr std::uint64_t kMostBlocks = 1 << 16;

__device__ void store(double* to, float value) { *to = value; }
__device__ void store(float* to, float value) { *to = value; }
__device__ void store(__half* to, float value) { *to = __float2half_rn(value); }
__device__ void store(__nv_bfloat16* to, float value) { *to = __float2bfloat16_rn(value); }

template <class T>
__global__ void __launch_bounds__(kThreads)
    fill_kernel(T* out, std::uint64_t count, std::uint64_t seed, std::uint64_t number, float mean, float deviation) {
  wait_for_previous();
  struct alignas(4 * sizeof(T) > 16 ? 16 : 4 * sizeof(T)) Pack {
    T value[4];
  };
  // A part of a tensor may begin at any element.
  const bool is_aligned = reinterpret_cast<std::uintptr_t>(out) % alignof(Pack) == 0;
  const std::uint64_t blocks = (count + 3) / 4;
  const std::uint64_t stride = std::uint64_t{gridDim.x} * kThreads;
  for (std::uint64_t block = std::uint64_t{blockIdx.x} * kThreads + threadIdx.x; block < blocks; block += stride) {
    const random_inl::Four normals = random_inl::normals(random_inl::words_of(seed, number, block));
    Pack pack;
#pragma unroll
    for (int i = 0; i < 4; ++i) store(&pack.value[i], mean + deviation * normals.value[i]);
    if (is_aligned && 4 * block + 4 <= count) {
      reinterpret_cast<Pack*>(out)[block] = pack;
    } else {
      for (std::uint64_t i = 0; i < 4 && 4 * block + i < count; ++i) out[4 * block + i] = pack.value[i];
    }
  }
}

template <class T>
void launch(cudaStream_t stream, void* device, std::uint64_t count, std::uint64_t seed, std::uint64_t number,
            float mean, float deviation) {
  const std::uint64_t wanted = (count + 4 * kThreads - 1) / (4 * kThreads);
  const auto blocks = static_cast<unsigned>(wanted < kMostBlocks ? wanted : kMostBlocks);
  launch_early(fill_kernel<T>, {blocks, kThreads, stream}, static_cast<T*>(device), count, seed, number, mean,
               deviation);
}

}  // namespace

void fill_normal(void* stream, void* device, RealType type, std::uint64_t count, std::uint64_t seed,
                 std::uint64_t number, float mean, float deviation) {
  if (count == 0) return;
  auto* const on = static_cast<cudaStream_t>(stream);
  switch (type) {
    case RealType::kF64:
      return launch<double>(on, device, count, seed, number, mean, deviation);
    case RealType::kF32:
      return launch<float>(on, device, count, seed, number, mean, deviation);
    case RealType::kF16:
      return launch<__half>(on, device, count, seed, number, mean, deviation);
    case RealType::kBf16:
      return launch<__nv_bfloat16>(on, device, count, seed, number, mean, deviation);
  }
}

}  // namespace headroom::cuda
