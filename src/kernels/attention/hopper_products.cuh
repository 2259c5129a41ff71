#pragma once

// Products of a warpgroup as attention needs them, beside those of hopper.cuh: sums that begin anew, and values that lie key by key. PTX
// ISA 8.x, section "wgmma".

#include <cstdint>

#include "kernels/cuda/fragments.cuh"

namespace headroom::attentions::products {

namespace hw = cuda::hopper;
using cuda::Bf16;
using cuda::F16;

/// d[64, N] = a[64, 16] b[N, 16]^T, or += where kAdds; both operands K-major in shared memory.
template <class T, int N, bool kAdds>
__device__ __forceinline__ void score(float (&d)[N / 2], std::uint64_t a, std::uint64_t b);

/// d[64, N] += a[64, 16] b[16, N] with a in registers, as hw::multiply has it, and b in shared memory row by row: 16 rows of 128 bytes
/// with the 128-byte swizzle, from a multiple of 1024 bytes on; `b` describes the first of them (describe_rows).
template <class T, int N>
__device__ __forceinline__ void weigh(float (&d)[N / 2], const uint4& a, std::uint64_t b);

/// Of an operand that is not K-major the rows of a product's depth are those in memory: groups of eight, 1024 bytes apart. Up to 64
/// elements of a row are one piece of the swizzle, so that how far pieces are apart, the lower of the two distances, is read by none.
__device__ __forceinline__ std::uint64_t describe_rows(std::uint32_t shared) {
  constexpr std::uint32_t kGroupBytes = 1024;
  return static_cast<std::uint64_t>((shared & 0x3FFFFU) >> 4) | static_cast<std::uint64_t>(kGroupBytes >> 4) << 16 |
         static_cast<std::uint64_t>(kGroupBytes >> 4) << 32 | std::uint64_t{1} << 62;
}

#define HR_8(i)                                                                                         \
  "+f"(d[i]), "+f"(d[(i) + 1]), "+f"(d[(i) + 2]), "+f"(d[(i) + 3]), "+f"(d[(i) + 4]), "+f"(d[(i) + 5]), \
      "+f"(d[(i) + 6]), "+f"(d[(i) + 7])
#define HR_16_PLACES "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15"
#define HR_24_PLACES HR_16_PLACES ", %16, %17, %18, %19, %20, %21, %22, %23"
#define HR_32_PLACES HR_24_PLACES ", %24, %25, %26, %27, %28, %29, %30, %31"
#define HR_40_PLACES HR_32_PLACES ", %32, %33, %34, %35, %36, %37, %38, %39"
#define HR_64_PLACES                                                                                                 \
  HR_40_PLACES                                                                                                       \
  ", %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, " \
  "%62, %63"

#define HR_SCORE(N, T, type, adds, places, a_and_b, ...)                                                              \
  template <>                                                                                                         \
  __device__ __forceinline__ void score<T, N, (adds) != 0>(float(&d)[N / 2], std::uint64_t a, std::uint64_t b) {      \
    asm volatile("wgmma.mma_async.sync.aligned.m64n" #N "k16.f32." type "." type " {" places "}, " a_and_b ", " #adds \
                 ", 1, 1, 0, 0;"                                                                                      \
                 : __VA_ARGS__                                                                                        \
                 : "l"(a), "l"(b));                                                                                   \
  }
#define HR_SCORE_ALL(N, places, a_and_b, ...)                \
  HR_SCORE(N, Bf16, "bf16", 0, places, a_and_b, __VA_ARGS__) \
  HR_SCORE(N, Bf16, "bf16", 1, places, a_and_b, __VA_ARGS__) \
  HR_SCORE(N, F16, "f16", 0, places, a_and_b, __VA_ARGS__)   \
  HR_SCORE(N, F16, "f16", 1, places, a_and_b, __VA_ARGS__)
HR_SCORE_ALL(64, HR_32_PLACES, "%32, %33", HR_8(0), HR_8(8), HR_8(16), HR_8(24))
HR_SCORE_ALL(80, HR_40_PLACES, "%40, %41", HR_8(0), HR_8(8), HR_8(16), HR_8(24), HR_8(32))
HR_SCORE_ALL(128, HR_64_PLACES, "%64, %65", HR_8(0), HR_8(8), HR_8(16), HR_8(24), HR_8(32), HR_8(40), HR_8(48),
             HR_8(56))

#define HR_WEIGH(N, T, type, places, a, b, ...)                                                               \
  template <>                                                                                                 \
  __device__ __forceinline__ void weigh<T, N>(float(&d)[N / 2], const uint4& first, std::uint64_t second) {   \
    asm volatile("wgmma.mma_async.sync.aligned.m64n" #N "k16.f32." type "." type " {" places "}, {" a "}, " b \
                 ", 1, 1, 1, 1;"                                                                              \
                 : __VA_ARGS__                                                                                \
                 : "r"(first.x), "r"(first.y), "r"(first.z), "r"(first.w), "l"(second));                      \
  }
#define HR_WEIGH_BOTH(N, places, a, b, ...)            \
  HR_WEIGH(N, Bf16, "bf16", places, a, b, __VA_ARGS__) \
  HR_WEIGH(N, F16, "f16", places, a, b, __VA_ARGS__)
HR_WEIGH_BOTH(32, HR_16_PLACES, "%16, %17, %18, %19", "%20", HR_8(0), HR_8(8))
HR_WEIGH_BOTH(48, HR_24_PLACES, "%24, %25, %26, %27", "%28", HR_8(0), HR_8(8), HR_8(16))
HR_WEIGH_BOTH(64, HR_32_PLACES, "%32, %33, %34, %35", "%36", HR_8(0), HR_8(8), HR_8(16), HR_8(24))
#undef HR_8
#undef HR_16_PLACES
#undef HR_24_PLACES
#undef HR_32_PLACES
#undef HR_40_PLACES
#undef HR_64_PLACES
#undef HR_SCORE_ALL
#undef HR_SCORE
#undef HR_WEIGH_BOTH
#undef HR_WEIGH

/// What products have written is not looked at before, nor what they read changed: no compiler moves either over this.
template <int kCount>
__device__ __forceinline__ void settle(float (&values)[kCount]) {
#pragma unroll
  for (float& value : values) asm volatile("" : "+f"(value)::"memory");
}
template <int kCount>
__device__ __forceinline__ void settle(uint4 (&values)[kCount]) {
#pragma unroll
  for (uint4& value : values) asm volatile("" : "+r"(value.x), "+r"(value.y), "+r"(value.z), "+r"(value.w)::"memory");
}

__device__ __forceinline__ void put_shared(std::uint32_t to, std::uint32_t word) {
  asm volatile("st.shared.u32 [%0], %1;" ::"r"(to), "r"(word) : "memory");
}
/// An arrival at a barrier of some of a block's threads, where others wait (hw::meet).
__device__ __forceinline__ void announce(int number, int threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(number), "r"(threads) : "memory");
}
/// Begins a copy to global memory; what of the box lies outside of the tensor is left out.
__device__ __forceinline__ void store_box(const cuda::TensorMap& map, std::uint32_t from, int x0, int x1, int x2,
                                          int x3) {
  asm volatile("cp.async.bulk.tensor.4d.global.shared::cta.bulk_group [%0, {%2, %3, %4, %5}], [%1];" ::"l"(&map),
               "r"(from), "r"(x0), "r"(x1), "r"(x2), "r"(x3)
               : "memory");
}

}  // namespace headroom::attentions::products
