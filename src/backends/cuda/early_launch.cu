#include <array>
#include <atomic>
#include <cstdint>

#include "backends/cuda/early_launch.cuh"

namespace headroom::cuda {
namespace {

/// Compiled like all kernels, so its attributes hold for all. Work after it begins when all work before it has
/// ended.
__global__ void like_all_kernels() { wait_alone(); }

enum class Known : std::uint8_t { kNot, kWithout, kWith };

Known find_out() {
  cudaFuncAttributes code{};
  if (cudaFuncGetAttributes(&code, like_all_kernels) == cudaSuccess)
    return has_waits(code) ? Known::kWith : Known::kWithout;
  static_cast<void>(cudaGetLastError());
  return Known::kNot;
}

}  // namespace

bool has_waits(const cudaFuncAttributes& code) { return code.ptxVersion >= 90; }

bool has_waits() {
  constexpr std::size_t kMostDevices = 64;
  static std::array<std::atomic<Known>, kMostDevices> known{};  // queried once per device: a launch must be fast
  int device = 0;
  if (cudaGetDevice(&device) != cudaSuccess) {
    static_cast<void>(cudaGetLastError());
    return false;
  }
  if (device < 0 || static_cast<std::size_t>(device) >= kMostDevices) return find_out() == Known::kWith;
  std::atomic<Known>& here = known[static_cast<std::size_t>(device)];
  if (here == Known::kNot) here = find_out();
  return here == Known::kWith;
}

void launch_wait(cudaStream_t stream) { launch_early(like_all_kernels, {1, 1, stream}); }

LaunchConfig::LaunchConfig(const LaunchShape& shape, bool uses_dependent_launch) {
  config_.gridDim = shape.blocks;
  config_.blockDim = shape.threads;
  config_.dynamicSmemBytes = shape.shared_bytes;
  config_.stream = shape.stream;
  config_.attrs = attributes_;
  if (shape.is_whole_at_once) {
    cudaLaunchAttribute& cooperative = attributes_[config_.numAttrs++];
    cooperative.id = cudaLaunchAttributeCooperative;
    cooperative.val.cooperative = 1;
  } else if (uses_dependent_launch) {
    cudaLaunchAttribute& early = attributes_[config_.numAttrs++];
    early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    early.val.programmaticStreamSerializationAllowed = 1;
  }
  if (shape.cluster > 0) {
    cudaLaunchAttribute& cluster = attributes_[config_.numAttrs++];
    cluster.id = cudaLaunchAttributeClusterDimension;
    cluster.val.clusterDim.x = static_cast<unsigned>(shape.cluster);
    cluster.val.clusterDim.y = cluster.val.clusterDim.z = 1;
  }
}

}  // namespace headroom::cuda
