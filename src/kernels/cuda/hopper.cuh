#pragma once

// Hopper's own instructions, under names of ours: barriers in shared memory that count bytes (mbarrier), copies of boxes of tensors
// (TMA), products of a warpgroup (wgmma), the moving of registers between warpgroups, and clusters of blocks. PTX ISA 8.x, sections
// "mbarrier", "cp.async.bulk.tensor", "wgmma" and "barrier.cluster".
//
// The code is for sm_90a alone: kernels that use it have an empty body elsewhere (HR_HAS_HOPPER), and their supports() asks for a
// device of compute capability 9.0.

#include <cstdint>

#include "kernels/cuda/device.cuh"
#include "kernels/cuda/tensor_map.hpp"

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

/// Whether this is the one thread of its warp that is to act for all of it; all 32 ask together.
__device__ __forceinline__ bool is_elected() {
  std::uint32_t elected;
  asm volatile("{\n.reg .pred p;\nelect.sync _|p, 0xFFFFFFFF;\nselp.u32 %0, 1, 0, p;\n}" : "=r"(elected)::"memory");
  return elected != 0;
}

// Barriers. One completes a phase when all its arrivals have come and all bytes that were announced have been copied; its phases are
// 0, 1, 0, ... in turn, and to wait for a phase is to wait until it is over.

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
/// An arrival that announces so many bytes, before the copies that bring them.
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

// Copies of boxes (tensor_map.hpp) to shared memory, at coordinates innermost first, that end on a barrier. Swizzled ones go to
// multiples of 1024 bytes, others to multiples of 128. One thread begins them.

__device__ __forceinline__ void prefetch(const TensorMap& map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory");
}
__device__ __forceinline__ void copy_box(void* to, const TensorMap& map, Barrier& barrier, int x0, int x1) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4}], [%2];" ::"r"(
          shared_address(to)),
      "l"(&map), "r"(shared_address(&barrier)), "r"(x0), "r"(x1)
      : "memory");
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

// Products of a warpgroup: d[64, N] += a[64, 16] b[N, 16]^T, both operands K-major in shared memory. Thread t of the warpgroup has in
// d[4 j + 2 k + i] row 16 (t / 32) + 8 k + t % 32 / 4 and column 8 j + 2 (t % 4) + i.

/// Where an operand lies that was copied with the 128-byte swizzle: groups of eight rows of 128 bytes, group_bytes apart. The address
/// may be that of any row (and of any 16 elements in it): pieces change places by the address, not by the row.
__device__ __forceinline__ std::uint64_t describe_operand(std::uint32_t shared, std::uint32_t group_bytes) {
  return static_cast<std::uint64_t>((shared & 0x3FFFFU) >> 4) | std::uint64_t{1} << 16 |
         static_cast<std::uint64_t>(group_bytes >> 4) << 32 | std::uint64_t{1} << 62;
}

/// Before the first product and whenever registers of d were touched by other instructions.
__device__ __forceinline__ void begin_products() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
/// Ends a group of products.
__device__ __forceinline__ void commit_products() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
/// Until at most so many groups are under way.
template <int kPending>
__device__ __forceinline__ void wait_for_products() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}

/// T is Bf16 or F16.
template <class T, int N>
__device__ __forceinline__ void multiply(float (&d)[N / 2], std::uint64_t a, std::uint64_t b);

#define HR_4(i) "+f"(d[i]), "+f"(d[(i) + 1]), "+f"(d[(i) + 2]), "+f"(d[(i) + 3])
#define HR_16(i) HR_4(i), HR_4((i) + 4), HR_4((i) + 8), HR_4((i) + 12)
#define HR_MULTIPLY(N, T, type, places, a_and_b, ...)                                                      \
  template <>                                                                                              \
  __device__ __forceinline__ void multiply<T, N>(float(&d)[N / 2], std::uint64_t a, std::uint64_t b) {     \
    asm volatile("wgmma.mma_async.sync.aligned.m64n" #N "k16.f32." type "." type " {" places "}, " a_and_b \
                 ", 1, 1, 1, 0, 0;"                                                                        \
                 : __VA_ARGS__                                                                             \
                 : "l"(a), "l"(b));                                                                        \
  }
#define HR_MULTIPLY_BOTH(N, places, a_and_b, ...)            \
  HR_MULTIPLY(N, Bf16, "bf16", places, a_and_b, __VA_ARGS__) \
  HR_MULTIPLY(N, F16, "f16", places, a_and_b, __VA_ARGS__)

#define HR_8_PLACES "%0, %1, %2, %3, %4, %5, %6, %7"
HR_MULTIPLY_BOTH(16, HR_8_PLACES, "%8, %9", HR_4(0), HR_4(4))
#define HR_16_PLACES HR_8_PLACES ", %8, %9, %10, %11, %12, %13, %14, %15"
HR_MULTIPLY_BOTH(32, HR_16_PLACES, "%16, %17", HR_16(0))
#define HR_32_PLACES HR_16_PLACES ", %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
HR_MULTIPLY_BOTH(64, HR_32_PLACES, "%32, %33", HR_16(0), HR_16(16))
#define HR_40_PLACES HR_32_PLACES ", %32, %33, %34, %35, %36, %37, %38, %39"
HR_MULTIPLY_BOTH(80, HR_40_PLACES, "%40, %41", HR_16(0), HR_16(16), HR_4(32), HR_4(36))
#define HR_48_PLACES HR_40_PLACES ", %40, %41, %42, %43, %44, %45, %46, %47"
HR_MULTIPLY_BOTH(96, HR_48_PLACES, "%48, %49", HR_16(0), HR_16(16), HR_16(32))
#define HR_64_PLACES HR_48_PLACES ", %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
HR_MULTIPLY_BOTH(128, HR_64_PLACES, "%64, %65", HR_16(0), HR_16(16), HR_16(32), HR_16(48))
#define HR_80_PLACES HR_64_PLACES ", %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79"
HR_MULTIPLY_BOTH(160, HR_80_PLACES, "%80, %81", HR_16(0), HR_16(16), HR_16(32), HR_16(48), HR_16(64))
#define HR_96_PLACES HR_80_PLACES ", %80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95"
HR_MULTIPLY_BOTH(192, HR_96_PLACES, "%96, %97", HR_16(0), HR_16(16), HR_16(32), HR_16(48), HR_16(64), HR_16(80))
#define HR_128_PLACES                                                                                          \
  HR_96_PLACES                                                                                                 \
  ", %96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, %112, %113, " \
  "%114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"
HR_MULTIPLY_BOTH(256, HR_128_PLACES, "%128, %129", HR_16(0), HR_16(16), HR_16(32), HR_16(48), HR_16(64), HR_16(80),
                 HR_16(96), HR_16(112))
#undef HR_8_PLACES
#undef HR_16_PLACES
#undef HR_32_PLACES
#undef HR_40_PLACES
#undef HR_48_PLACES
#undef HR_64_PLACES
#undef HR_80_PLACES
#undef HR_96_PLACES
#undef HR_128_PLACES
#undef HR_MULTIPLY_BOTH
#undef HR_MULTIPLY
#undef HR_16
#undef HR_4

// Registers. All warps of a warpgroup ask together; what consumers take, a producer gave away before.

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

// Clusters: blocks side by side that copy to each other's shared memory.

/// Of all threads of a cluster that have not ended, in two parts: what each wrote before it arrives, all see once they have waited.
__device__ __forceinline__ void arrive_in_cluster() {
  asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
}
__device__ __forceinline__ void wait_for_cluster() {
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}

/// Where block `rank` of the cluster has what lies at this address here.
__device__ __forceinline__ std::uint32_t address_in(std::uint32_t shared, int rank) {
  std::uint32_t there;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(shared), "r"(rank));
  return there;
}
/// Between ordinary writes to shared memory and copies or products that read them; before threads meet.
__device__ __forceinline__ void fence_for_copies() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
/// Begins a copy of bytes, a multiple of 16, from here to another block, which ends on a barrier there.
__device__ __forceinline__ void copy_to_block(std::uint32_t to, std::uint32_t from, std::uint32_t bytes,
                                              std::uint32_t barrier) {
  asm volatile("cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to),
               "r"(from), "r"(bytes), "r"(barrier)
               : "memory");
}

}  // namespace headroom::cuda::hopper
