#include <cstdint>

#include "kernels/core/cuda/launch.cuh"
#include "testing/late_work.hpp"

namespace headroom::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kBlocks = 8;                        // few blocks leave room for early successors
constexpr std::uint64_t kLateNs = 300'000;        // as long as many launches by the host
constexpr std::uint64_t kMostNs = 4'000'000'000;  // timeout if no successor begins

struct Copies {
  struct One {
    const std::byte* from = nullptr;
    std::byte* to = nullptr;
    std::size_t bytes = 0;
  };
  One of[kMostLateCopies];
  int count = 0;
};

__device__ std::uint64_t clock_ns() {
  std::uint64_t now = 0;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  return now;
}

__global__ void __launch_bounds__(kThreads) late_kernel(const __grid_constant__ Copies copies) {
  wait_for_previous();
  for (const std::uint64_t start = clock_ns(); clock_ns() - start < kLateNs;) {
  }
  const std::size_t first = std::size_t{blockIdx.x} * kThreads + threadIdx.x;
  constexpr std::size_t kStep = std::size_t{kBlocks} * kThreads;
  for (int i = 0; i < copies.count; ++i) {
    const Copies::One& copy = copies.of[i];
    const auto places = reinterpret_cast<std::uintptr_t>(copy.from) | reinterpret_cast<std::uintptr_t>(copy.to);
    const std::size_t packs = places % sizeof(uint4) == 0 ? copy.bytes / sizeof(uint4) : 0;
    for (std::size_t pack = first; pack < packs; pack += kStep)
      reinterpret_cast<uint4*>(copy.to)[pack] = reinterpret_cast<const uint4*>(copy.from)[pack];
    for (std::size_t byte = packs * sizeof(uint4) + first; byte < copy.bytes; byte += kStep)
      copy.to[byte] = copy.from[byte];
  }
}

__global__ void until_begun_kernel(const volatile std::uint32_t* begun, std::uint32_t* found) {
  wait_for_previous();
  const std::uint64_t start = clock_ns();
  while (*begun == 0 && clock_ns() - start < kMostNs) {
  }
  *found = *begun;
}

__global__ void begun_kernel(volatile std::uint32_t* begun) {
  *begun = 1;
  wait_for_previous();
}

cudaStream_t native(const Stream& stream) { return static_cast<cudaStream_t>(stream.native_handle()); }

}  // namespace

void submit_late_copies(Stream& stream, std::span<const LateCopy> copies) {
  HR_CHECK(copies.size() <= kMostLateCopies);
  Copies late;
  for (const LateCopy& copy : copies)
    late.of[late.count++] = {copy.from.address<std::byte>(), copy.to.address<std::byte>(), copy.bytes};
  launch_early(late_kernel, {kBlocks, kThreads, native(stream)}, late);
  check_launched("late kernel");
}

void submit_until_begun(Stream& stream, DevicePointer begun, DevicePointer found) {
  launch_early(until_begun_kernel, {1, 1, native(stream)}, begun.address<std::uint32_t>(),
               found.address<std::uint32_t>());
  check_launched("kernel that waits for the next to begin");
}

void submit_begun(Stream& stream, DevicePointer begun) {
  launch_early(begun_kernel, {1, 1, native(stream)}, begun.address<std::uint32_t>());
  check_launched("kernel that begins early");
}

}  // namespace headroom::cuda
