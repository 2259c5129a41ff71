#pragma once

// Host code that the kernels for Hopper share. These have more shared memory than others, which a kernel must ask
// for; some run in clusters. Each is compiled for several tiles and types, and a launch picks one.

#include <cuda_runtime_api.h>

#include <type_traits>

#include "backends/cuda/early_launch.cuh"
#include "kernels/core/cuda/device.cuh"

namespace headroom::cuda {

template <int kValue>
using Constant = std::integral_constant<int, kValue>;

/// Calls use(constant) with the one of these values that `value` is, as it must be.
template <auto kValue, auto... kOthers, class Value, class Use>
void with_one_of(Value value, const Use& use) {
  if constexpr (sizeof...(kOthers) > 0)
    if (value != kValue) return with_one_of<kOthers...>(value, use);
  use(std::integral_constant<Value, kValue>());
}

/// Calls use(T()) with the type of 16 bits that stores `dtype`.
template <class Use>
void with_small_type_of(DType dtype, const Use& use) {
  if (dtype == DType::kBF16) return use(Bf16());
  use(F16());
}

inline LaunchShape large_shape(int blocks, int threads, int shared_bytes, void* stream, int cluster = 0) {
  return {.blocks = dim3(static_cast<unsigned>(blocks)),
          .threads = dim3(static_cast<unsigned>(threads)),
          .stream = static_cast<cudaStream_t>(stream),
          .shared_bytes = static_cast<std::size_t>(shared_bytes),
          .cluster = cluster};
}

/// Permits a kernel the shared memory and cluster size of `shape`. If that fails, its launch reports it.
template <class... Parameters>
void permit(void (*kernel)(Parameters...), const LaunchShape& shape) {
  constexpr int kMostPortable = 8;
  static_cast<void>(
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shape.shared_bytes)));
  if (shape.cluster > kMostPortable)
    static_cast<void>(cudaFuncSetAttribute(kernel, cudaFuncAttributeNonPortableClusterSizeAllowed, 1));
}

/// launch_early() of such a kernel.
template <class... Parameters, class... Arguments>
void launch_large(void (*kernel)(Parameters...), const LaunchShape& shape, const Arguments&... arguments) {
  permit(kernel, shape);
  launch_early(kernel, shape, arguments...);
}

/// How many clusters of its blocks the current device runs at once.
template <class... Parameters>
int clusters_at_once(void (*kernel)(Parameters...), const LaunchShape& shape) {
  permit(kernel, shape);
  const LaunchConfig config(shape, false);
  int clusters = 0;
  static_cast<void>(cudaOccupancyMaxActiveClusters(&clusters, kernel, &config.get()));
  return clusters;
}

}  // namespace headroom::cuda
