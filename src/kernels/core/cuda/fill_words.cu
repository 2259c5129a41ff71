// Words of random bits in a given pattern: operands to time work on.

#include "kernels/core/cuda/fill_words.hpp"
#include "kernels/core/cuda/launch.cuh"

namespace headroom::cuda {
namespace {

constexpr int kThreads = 256;

/// The finalizer of MurmurHash3.
__device__ __forceinline__ std::uint32_t scramble(std::uint32_t x) {
  x = (x ^ (x >> 16)) * 0x85EBCA6BU;
  x = (x ^ (x >> 13)) * 0xC2B2AE35U;
  return x ^ (x >> 16);
}

__global__ void __launch_bounds__(kThreads)
    fill_kernel(std::uint32_t keep, std::uint32_t set, std::uint32_t* data, std::size_t words) {
  wait_for_previous();
  const std::size_t i = static_cast<std::size_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i < words) data[i] = (scramble(static_cast<std::uint32_t>(i) + 1) & keep) | set;
}

}  // namespace

void launch_fill_words(void* stream, std::uint32_t keep, std::uint32_t set, void* data, std::size_t words) {
  if (words == 0) return;
  launch_early(fill_kernel,
               {blocks_along_x(divide_up(static_cast<std::int64_t>(words), kThreads)), kThreads,
                static_cast<cudaStream_t>(stream)},
               keep, set, static_cast<std::uint32_t*>(data), words);
  check_launched("cuda fill kernel");
}

}  // namespace headroom::cuda
