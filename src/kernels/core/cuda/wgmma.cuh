#pragma once

// Matrix multiply-adds of a warpgroup on Hopper's tensor cores: d[64, N] += a[64, 16] b. They are issued together
// and waited for later. Thread t of the warpgroup has in d[4 j + 2 k + i] row 16 (t / 32) + 8 k + t % 32 / 4 and
// column 8 j + 2 (t % 4) + i. PTX ISA 8.x, section "wgmma".

#include <cstdint>

#include "kernels/core/cuda/device.cuh"

namespace headroom::cuda::hopper {

/// The descriptor of an operand that was copied with the 128-byte swizzle: groups of eight rows of 128 bytes,
/// group_bytes apart. The address may be that of any row, and of any 16 elements in it: the swizzle permutes pieces
/// by the address, not by the row. Operands with kAcross (below) that are wider than 64 elements have pieces of 64,
/// piece_bytes apart; others have one piece along a row.
__device__ __forceinline__ std::uint64_t describe_operand(std::uint32_t shared, std::uint32_t group_bytes,
                                                          std::uint32_t piece_bytes = 16) {
  return static_cast<std::uint64_t>((shared & 0x3FFFFU) >> 4) | static_cast<std::uint64_t>(piece_bytes >> 4) << 16 |
         static_cast<std::uint64_t>(group_bytes >> 4) << 32 | std::uint64_t{1} << 62;
}

/// Before the first multiply-add and whenever registers of d were touched by other instructions.
__device__ __forceinline__ void begin_wgmma() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
/// Ends a group of multiply-adds.
__device__ __forceinline__ void commit_wgmma() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
/// Waits until at most kPending groups are in flight.
template <int kPending>
__device__ __forceinline__ void wait_for_wgmma() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}

/// A fence for the compiler: it moves neither reads of results nor writes of operands across this.
template <int kCount>
__device__ __forceinline__ void settle(float (&values)[kCount]) {
#pragma unroll
  for (float& value : values) asm volatile("" : "+f"(value)::"memory");
}
template <int kCount>
__device__ __forceinline__ void settle(int (&values)[kCount]) {
#pragma unroll
  for (int& value : values) asm volatile("" : "+r"(value)::"memory");
}
template <int kCount>
__device__ __forceinline__ void settle(uint4 (&values)[kCount]) {
#pragma unroll
  for (uint4& value : values) asm volatile("" : "+r"(value.x), "+r"(value.y), "+r"(value.z), "+r"(value.w)::"memory");
}
/// Zeros, which no compiler moves in between multiply-adds.
template <int kCount>
__device__ __forceinline__ void clear(float (&d)[kCount]) {
#pragma unroll
  for (float& sum : d) sum = 0;
  settle(d);
}

// For each width, and for Bf16 and F16:
//
//   template <bool kAdds = true>    void multiply(T, float (&d)[N / 2], std::uint64_t a, std::uint64_t b);
//   template <bool kAcross = false> void multiply(T, float (&d)[N / 2], const uint4& a, std::uint64_t b);
//
// The first takes both operands from shared memory, a[64, 16] and b[N, 16], with the 16 elements of a row
// contiguous; without kAdds it overwrites d. The second takes a from registers. Thread t has there row 16 (t / 32)
// + t % 32 / 4: columns 2 (t % 4) and the next in a.x, the same of the row 8 below in a.y, and the columns 8
// further on in a.z and a.w. With kAcross b is [16, N], for every 64 columns 16 rows of 128 bytes from a multiple of
// 1024 on.

// Registers of d, and their places in an instruction's text, which those of its sources follow.
#define HR_8(i)                                                                                         \
  "+f"(d[i]), "+f"(d[(i) + 1]), "+f"(d[(i) + 2]), "+f"(d[(i) + 3]), "+f"(d[(i) + 4]), "+f"(d[(i) + 5]), \
      "+f"(d[(i) + 6]), "+f"(d[(i) + 7])
#define HR_16(i) HR_8(i), HR_8((i) + 8)
#define HR_32(i) HR_16(i), HR_16((i) + 16)
#define HR_16_PLACES "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15"
#define HR_24_PLACES HR_16_PLACES ", %16, %17, %18, %19, %20, %21, %22, %23"
#define HR_32_PLACES HR_24_PLACES ", %24, %25, %26, %27, %28, %29, %30, %31"
#define HR_36_PLACES HR_32_PLACES ", %32, %33, %34, %35"
#define HR_40_PLACES HR_32_PLACES ", %32, %33, %34, %35, %36, %37, %38, %39"
#define HR_48_PLACES HR_40_PLACES ", %40, %41, %42, %43, %44, %45, %46, %47"
#define HR_64_PLACES HR_48_PLACES ", %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define HR_68_PLACES HR_64_PLACES ", %64, %65, %66, %67"
#define HR_72_PLACES HR_68_PLACES ", %68, %69, %70, %71"
#define HR_80_PLACES HR_72_PLACES ", %72, %73, %74, %75, %76, %77, %78, %79"
#define HR_88_PLACES HR_80_PLACES ", %80, %81, %82, %83, %84, %85, %86, %87"
#define HR_96_PLACES HR_88_PLACES ", %88, %89, %90, %91, %92, %93, %94, %95"

#define HR_MULTIPLY(T, type, N, places, p0, p1, p2, p3, p4, p5, ...)                                               \
  template <bool kAdds = true>                                                                                     \
  __device__ __forceinline__ void multiply(T, float(&d)[N / 2], std::uint64_t a, std::uint64_t b) {                \
    asm volatile("wgmma.mma_async.sync.aligned.m64n" #N "k16.f32." type "." type " {" places "}, %" #p0 ", %" #p1  \
                 ", %" #p2 ", 1, 1, 0, 0;"                                                                         \
                 : __VA_ARGS__                                                                                     \
                 : "l"(a), "l"(b), "n"(kAdds ? 1 : 0));                                                            \
  }                                                                                                                \
  template <bool kAcross = false>                                                                                  \
  __device__ __forceinline__ void multiply(T, float(&d)[N / 2], const uint4& a, std::uint64_t b) {                 \
    asm volatile("wgmma.mma_async.sync.aligned.m64n" #N "k16.f32." type "." type " {" places "}, {%" #p0 ", %" #p1 \
                 ", %" #p2 ", %" #p3 "}, %" #p4 ", 1, 1, 1, %" #p5 ";"                                             \
                 : __VA_ARGS__                                                                                     \
                 : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "l"(b), "n"(kAcross ? 1 : 0));                          \
  }
#define HR_MULTIPLY_BOTH(...) HR_MULTIPLY(Bf16, "bf16", __VA_ARGS__) HR_MULTIPLY(F16, "f16", __VA_ARGS__)
HR_MULTIPLY_BOTH(32, HR_16_PLACES, 16, 17, 18, 19, 20, 21, HR_16(0))
HR_MULTIPLY_BOTH(48, HR_24_PLACES, 24, 25, 26, 27, 28, 29, HR_16(0), HR_8(16))
HR_MULTIPLY_BOTH(64, HR_32_PLACES, 32, 33, 34, 35, 36, 37, HR_32(0))
HR_MULTIPLY_BOTH(80, HR_40_PLACES, 40, 41, 42, 43, 44, 45, HR_32(0), HR_8(32))
HR_MULTIPLY_BOTH(96, HR_48_PLACES, 48, 49, 50, 51, 52, 53, HR_32(0), HR_16(32))
HR_MULTIPLY_BOTH(128, HR_64_PLACES, 64, 65, 66, 67, 68, 69, HR_32(0), HR_32(32))
HR_MULTIPLY_BOTH(136, HR_68_PLACES, 68, 69, 70, 71, 72, 73, HR_32(0), HR_32(32), "+f"(d[64]), "+f"(d[65]), "+f"(d[66]),
                 "+f"(d[67]))
HR_MULTIPLY_BOTH(144, HR_72_PLACES, 72, 73, 74, 75, 76, 77, HR_32(0), HR_32(32), HR_8(64))
HR_MULTIPLY_BOTH(160, HR_80_PLACES, 80, 81, 82, 83, 84, 85, HR_32(0), HR_32(32), HR_16(64))
HR_MULTIPLY_BOTH(176, HR_88_PLACES, 88, 89, 90, 91, 92, 93, HR_32(0), HR_32(32), HR_16(64), HR_8(80))
HR_MULTIPLY_BOTH(192, HR_96_PLACES, 96, 97, 98, 99, 100, 101, HR_32(0), HR_32(32), HR_32(64))

// Elements of 8 bits, of which an instruction takes 32: d[64, N] += a[64, 32] b[N, 32]^T, with the elements of a row
// contiguous in both. Those of a from registers have the layout above with four neighbours in each register, so that
// the columns of a.x are 4 (t % 4) and the next three, and those of a.z 16 further on.
//
//   template <bool kAdds = true> void multiply(I8, int (&d)[N / 2], std::uint64_t a, std::uint64_t b);
//   template <bool kAdds = true> void multiply(F8, float (&d)[N / 2], std::uint64_t a, std::uint64_t b);
//   template <bool kAdds = true> void multiply(F8, float (&d)[N / 2], const uint4& a, std::uint64_t b);
//
// I8 are sums of integers. F8 is E4M3, whose sums have few bits: an instruction aligns its products and the sum before
// to the largest, and cuts off what is below 14 bits (docs/gpu_facts.md).
struct I8 {};
struct F8 {};

#define HR_R8(i)                                                                                        \
  "+r"(d[i]), "+r"(d[(i) + 1]), "+r"(d[(i) + 2]), "+r"(d[(i) + 3]), "+r"(d[(i) + 4]), "+r"(d[(i) + 5]), \
      "+r"(d[(i) + 6]), "+r"(d[(i) + 7])
#define HR_R32(i) HR_R8(i), HR_R8((i) + 8), HR_R8((i) + 16), HR_R8((i) + 24)
template <bool kAdds = true>
__device__ __forceinline__ void multiply(I8, int (&d)[64], std::uint64_t a, std::uint64_t b) {
  asm volatile("wgmma.mma_async.sync.aligned.m64n128k32.s32.s8.s8 {" HR_64_PLACES "}, %64, %65, %66;"
               : HR_R32(0), HR_R32(32)
               : "l"(a), "l"(b), "n"(kAdds ? 1 : 0));
}
#define HR_MULTIPLY_F8(N, places, p0, p1, p2, p3, p4, p5, ...)                                                       \
  template <bool kAdds = true>                                                                                       \
  __device__ __forceinline__ void multiply(F8, float(&d)[N / 2], std::uint64_t a, std::uint64_t b) {                 \
    asm volatile("wgmma.mma_async.sync.aligned.m64n" #N "k32.f32.e4m3.e4m3 {" places "}, %" #p0 ", %" #p1 ", %" #p2  \
                 ", 1, 1;"                                                                                           \
                 : __VA_ARGS__                                                                                       \
                 : "l"(a), "l"(b), "n"(kAdds ? 1 : 0));                                                              \
  }                                                                                                                  \
  template <bool kAdds = true>                                                                                       \
  __device__ __forceinline__ void multiply(F8, float(&d)[N / 2], const uint4& a, std::uint64_t b) {                  \
    asm volatile("wgmma.mma_async.sync.aligned.m64n" #N "k32.f32.e4m3.e4m3 {" places "}, {%" #p0 ", %" #p1 ", %" #p2 \
                 ", %" #p3 "}, %" #p4 ", %" #p5 ", 1, 1;"                                                            \
                 : __VA_ARGS__                                                                                       \
                 : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "l"(b), "n"(kAdds ? 1 : 0));                              \
  }
HR_MULTIPLY_F8(64, HR_32_PLACES, 32, 33, 34, 35, 36, 37, HR_32(0))
HR_MULTIPLY_F8(72, HR_36_PLACES, 36, 37, 38, 39, 40, 41, HR_32(0), "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]))
HR_MULTIPLY_F8(128, HR_64_PLACES, 64, 65, 66, 67, 68, 69, HR_32(0), HR_32(32))
#undef HR_R8
#undef HR_R32
#undef HR_MULTIPLY_F8
#undef HR_36_PLACES
#undef HR_8
#undef HR_16
#undef HR_32
#undef HR_16_PLACES
#undef HR_24_PLACES
#undef HR_32_PLACES
#undef HR_40_PLACES
#undef HR_48_PLACES
#undef HR_64_PLACES
#undef HR_68_PLACES
#undef HR_72_PLACES
#undef HR_80_PLACES
#undef HR_88_PLACES
#undef HR_96_PLACES
#undef HR_MULTIPLY
#undef HR_MULTIPLY_BOTH

}  // namespace headroom::cuda::hopper
