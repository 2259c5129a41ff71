#pragma once

// Hopper's own instructions: barriers in shared memory that count bytes (mbarrier), copies of boxes of tensors
// (TMA), moving registers between warpgroups, and clusters of thread blocks. Matrix multiply-adds are in wgmma.cuh.
// PTX ISA 8.x, sections "mbarrier", "cp.async.bulk.tensor" and "barrier.cluster".
//
// The code is for sm_90a alone: kernels that use it have an empty body elsewhere (HR_HAS_HOPPER), and their
// supports() asks for a device of compute capability 9.0.

#include <cstdint>

#include "kernels/core/cuda/device.cuh"
#include "kernels/core/cuda/tensor_map.hpp"

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define HR_HAS_HOPPER 1
#else
#define HR_HAS_HOPPER 0
#endif

namespace headroom::cuda::hopper {

inline constexpr int kWarpgroup = 128;  ///< threads, of four warps from a multiple of four on

__device__ __forceinline__ std::uint32_t shared_address(const void* shared) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(shared));
}

/// The warpgroup of this thread. The compiler knows it to be the same for a warp, so that it computes addresses and
/// descriptors of operands once for a warp.
__device__ __forceinline__ int own_warpgroup() {
  return __shfl_sync(0xFFFFFFFFU, static_cast<int>(threadIdx.x) / kWarpgroup, 0);
}

/// Whether this is the one thread of its warp that is to act for all of it; all 32 ask together.
__device__ __forceinline__ bool is_elected() {
  std::uint32_t elected;
  asm volatile("{\n.reg .pred p;\nelect.sync _|p, 0xFFFFFFFF;\nselp.u32 %0, 1, 0, p;\n}" : "=r"(elected)::"memory");
  return elected != 0;
}

// Barriers. A barrier completes a phase when all its arrivals have come and all announced bytes have been copied.
// Its phases alternate: 0, 1, 0, ... Waiting for a phase means waiting until it is over.

using Barrier = std::uint64_t;

__device__ __forceinline__ void init_barrier(Barrier& barrier, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(&barrier)), "r"(arrivals) : "memory");
}
/// After all init_barrier() of a thread: the copy engine and the blocks of a cluster see them once threads have met.
__device__ __forceinline__ void fence_barrier_init() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
__device__ __forceinline__ void arrive(Barrier& barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(&barrier)) : "memory");
}
/// An arrival that announces `bytes`, before the copies that bring them.
__device__ __forceinline__ void arrive_expecting(Barrier& barrier, std::uint32_t bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(&barrier)), "r"(bytes)
               : "memory");
}
__device__ __forceinline__ void wait(Barrier& barrier, std::uint32_t phase) {
  asm volatile(
      "{\n"
      ".reg .pred p;\n"
      "again:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n"
      "@!p bra again;\n"
      "}" ::"r"(shared_address(&barrier)),
      "r"(phase)
      : "memory");
}

/// A place in a ring of `count` stages with a barrier each, and the phase that the barrier is in there.
struct RingPlace {
  int stage = 0;
  std::uint32_t phase = 0;

  __device__ __forceinline__ void advance(int count) {
    if (++stage != count) return;
    stage = 0;
    phase ^= 1;
  }
};

// Copies of boxes (tensor_map.hpp) to shared memory, which complete on a barrier; coordinates are innermost first.
// Swizzled copies go to multiples of 1024 bytes, others to multiples of 128. One thread begins them.

__device__ __forceinline__ void prefetch(const TensorMap& map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory");
}
__device__ __forceinline__ void copy_box(void* to, const TensorMap& map, Barrier& barrier, int x0, int x1, int x2) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5}], [%2];" ::
          "r"(shared_address(to)),
      "l"(&map), "r"(shared_address(&barrier)), "r"(x0), "r"(x1), "r"(x2)
      : "memory");
}
__device__ __forceinline__ void copy_box(void* to, const TensorMap& map, Barrier& barrier, int x0, int x1, int x2,
                                         int x3) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, %6}], "
      "[%2];" ::"r"(shared_address(to)),
      "l"(&map), "r"(shared_address(&barrier)), "r"(x0), "r"(x1), "r"(x2), "r"(x3)
      : "memory");
}

// Registers. All warps of a warpgroup ask together; consumers take registers that a producer has given away.

template <int kRegisters>
__device__ __forceinline__ void take_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters));
}
template <int kRegisters>
__device__ __forceinline__ void give_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters));
}

/// A barrier of some of a block's threads, by a number from 1 on (__syncthreads() has 0).
__device__ __forceinline__ void meet(int number, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(number), "r"(threads) : "memory");
}
/// An arrival at one, of a thread that does not wait for the others.
__device__ __forceinline__ void announce(int number, int threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(number), "r"(threads) : "memory");
}

// Clusters: blocks side by side that copy to each other's shared memory.

/// The barrier of a cluster, in two parts, for all its threads that have not ended: after the wait, all see the
/// writes of each thread before its arrival.
__device__ __forceinline__ void arrive_in_cluster() {
  asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
}
__device__ __forceinline__ void wait_for_cluster() {
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}

/// Says that this block has begun, and no more: others may write to its shared memory once they have waited.
__device__ __forceinline__ void begin_in_cluster() {
  asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
}

/// The address in block `rank` of the cluster that corresponds to this address here.
__device__ __forceinline__ std::uint32_t address_in(std::uint32_t shared, int rank) {
  std::uint32_t there;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(shared), "r"(rank));
  return there;
}
/// Writes to the counterpart of `place` in block `rank`. The threads there wait for that block's barrier, which
/// counts the bytes.
__device__ __forceinline__ void store_in_block(float2* place, int rank, float2 value, Barrier& barrier) {
  asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.v2.f32 [%0], {%1, %2}, [%3];" ::"r"(
                   address_in(shared_address(place), rank)),
               "f"(value.x), "f"(value.y), "r"(address_in(shared_address(&barrier), rank))
               : "memory");
}
/// Writes to the counterpart of `place` in block `rank`. The threads there wait for the barrier of the cluster.
__device__ __forceinline__ void store_in_block(float* place, int rank, float value) {
  asm volatile("st.shared::cluster.f32 [%0], %1;" ::"r"(address_in(shared_address(place), rank)), "f"(value)
               : "memory");
}
/// Begins a copy of bytes, a multiple of 16, from global memory, which ends on a barrier.
__device__ __forceinline__ void copy_bytes(void* to, const void* from, std::uint32_t bytes, Barrier& barrier) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                   shared_address(to)),
               "l"(from), "r"(bytes), "r"(shared_address(&barrier))
               : "memory");
}
/// Begins a copy of 4 bytes from global memory, or of zeros if `exists` is false, by this thread.
__device__ __forceinline__ void copy_word(std::uint32_t to, const void* from, bool exists) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(to), "l"(from), "r"(exists ? 4 : 0) : "memory");
}
/// An arrival, counted in init_barrier(), once all copies of words by this thread are there.
__device__ __forceinline__ void arrive_after_words(Barrier& barrier) {
  asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(shared_address(&barrier)) : "memory");
}
/// Writes to block `rank` of the cluster at the address that corresponds to `to` here, a multiple of 16. The threads
/// there wait for that block's barrier, which counts the bytes.
__device__ __forceinline__ void store_in_block(std::uint32_t to, int rank, const uint4& value, Barrier& barrier) {
  asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 [%0], {%1, %2, %3, %4}, [%5];" ::"r"(
                   address_in(to, rank)),
               "r"(value.x), "r"(value.y), "r"(value.z), "r"(value.w), "r"(address_in(shared_address(&barrier), rank))
               : "memory");
}
/// An arrival at the counterpart of `barrier` in block `rank`. It says what this thread has read, not what it wrote.
__device__ __forceinline__ void arrive_in_block(Barrier& barrier, int rank) {
  asm volatile(
      "mbarrier.arrive.relaxed.cluster.shared::cluster.b64 _, [%0];" ::"r"(address_in(shared_address(&barrier), rank))
      : "memory");
}
/// Between ordinary writes to shared memory and copies or multiply-adds that read them; before threads meet.
__device__ __forceinline__ void fence_for_copies() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
/// Begins a copy of bytes, a multiple of 16, from here to another block, which ends on a barrier there.
__device__ __forceinline__ void copy_to_block(std::uint32_t to, std::uint32_t from, std::uint32_t bytes,
                                              std::uint32_t barrier) {
  asm volatile("cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to),
               "r"(from), "r"(bytes), "r"(barrier)
               : "memory");
}

}  // namespace headroom::cuda::hopper
