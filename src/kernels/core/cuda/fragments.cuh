#pragma once

// Hopper's instructions that move data between registers and shared memory, apart from those of hopper.cuh:
// transposed stores of results, copies of boxes back to global memory, and matrix multiply-adds (mma) of a single
// warp. PTX ISA 8.x, sections "stmatrix", "ldmatrix", "cp.async.bulk.tensor" and "mma".

#include <cstdint>

#include "kernels/core/cuda/hopper.cuh"

namespace headroom::cuda::hopper {

/// Several arrivals at once.
__device__ __forceinline__ void arrive(Barrier& barrier, int arrivals) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(&barrier)), "r"(arrivals)
               : "memory");
}

__device__ __forceinline__ void copy_box(std::uint32_t to, const TensorMap& map, Barrier& barrier, int x0, int x1,
                                         int x2, int x3, int x4) {
  asm volatile(
      "cp.async.bulk.tensor.5d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, %6, %7}], "
      "[%2];" ::"r"(to),
      "l"(&map), "r"(shared_address(&barrier)), "r"(x0), "r"(x1), "r"(x2), "r"(x3), "r"(x4)
      : "memory");
}

/// Begins a copy to global memory; the part of the box outside the tensor is left out.
__device__ __forceinline__ void store_box(const TensorMap& map, std::uint32_t from, int x0, int x1, int x2, int x3) {
  asm volatile("cp.async.bulk.tensor.4d.global.shared::cta.bulk_group [%0, {%2, %3, %4, %5}], [%1];" ::"l"(&map),
               "r"(from), "r"(x0), "r"(x1), "r"(x2), "r"(x3)
               : "memory");
}
__device__ __forceinline__ void store_box(const TensorMap& map, std::uint32_t from, int x0, int x1, int x2, int x3,
                                          int x4) {
  asm volatile("cp.async.bulk.tensor.5d.global.shared::cta.bulk_group [%0, {%2, %3, %4, %5, %6}], [%1];" ::"l"(&map),
               "r"(from), "r"(x0), "r"(x1), "r"(x2), "r"(x3), "r"(x4)
               : "memory");
}
__device__ __forceinline__ void commit_stores() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
/// Waits until the copies that this thread began have read their sources.
__device__ __forceinline__ void wait_for_stores_to_read() {
  asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
}

__device__ __forceinline__ void put_shared(std::uint32_t to, std::uint32_t word) {
  asm volatile("st.shared.u32 [%0], %1;" ::"r"(to), "r"(word) : "memory");
}
/// Four words from an address that is a multiple of 16.
__device__ __forceinline__ uint4 get_shared(std::uint32_t from) {
  uint4 words;
  asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(words.x), "=r"(words.y), "=r"(words.z), "=r"(words.w)
               : "r"(from)
               : "memory");
  return words;
}
/// Four matrices of 8x8 elements of 16 bits. Thread t has element [t / 4][2 (t % 4)] and the next of each. They are
/// stored transposed: thread 8 m + r gives the address of column r of matrix m, 16 bytes.
__device__ __forceinline__ void store_transposed(std::uint32_t to, const std::uint32_t (&matrices)[4]) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared::cta.b16 [%0], {%1, %2, %3, %4};" ::"r"(to),
               "r"(matrices[0]), "r"(matrices[1]), "r"(matrices[2]), "r"(matrices[3])
               : "memory");
}
/// Four such matrices as they lie: thread 8 m + r gives where row r of matrix m is.
__device__ __forceinline__ void load_matrices(std::uint32_t from, std::uint32_t (&matrices)[4]) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared::cta.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(matrices[0]), "=r"(matrices[1]), "=r"(matrices[2]), "=r"(matrices[3])
               : "r"(from)
               : "memory");
}
/// The transposed load: the inverse of store_transposed().
__device__ __forceinline__ void load_transposed(std::uint32_t from, std::uint32_t (&matrices)[4]) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared::cta.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(matrices[0]), "=r"(matrices[1]), "=r"(matrices[2]), "=r"(matrices[3])
               : "r"(from)
               : "memory");
}

// Two elements in a register, the first in its lower half.

__device__ __forceinline__ std::uint32_t pack(Bf16, float low, float high) { return pack_bf16(low, high); }
__device__ __forceinline__ std::uint32_t pack(F16, float low, float high) { return pack_f16(low, high); }
__device__ __forceinline__ float low_of(Bf16, std::uint32_t pair) { return __uint_as_float(pair << 16); }
__device__ __forceinline__ float high_of(Bf16, std::uint32_t pair) { return __uint_as_float(pair & 0xFFFF0000U); }
__device__ __forceinline__ float low_of(F16, std::uint32_t pair) {
  return to_float(F16{static_cast<std::uint16_t>(pair)});
}
__device__ __forceinline__ float high_of(F16, std::uint32_t pair) {
  return to_float(F16{static_cast<std::uint16_t>(pair >> 16)});
}

/// d[16, 8] += a[16, 16] b[8, 16]^T by one warp, all in registers. Thread t has row t / 4 of d in columns 2 (t % 4)
/// and the next, then the same of the row 8 below; a as below; row t / 4 of b in columns 2 (t % 4) and the next,
/// then 8 further on.
__device__ __forceinline__ void multiply(Bf16, float (&d)[4], const std::uint32_t (&a)[4],
                                         const std::uint32_t (&b)[2]) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, "
      "%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
__device__ __forceinline__ void multiply(F16, float (&d)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2]) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, "
      "%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

}  // namespace headroom::cuda::hopper
