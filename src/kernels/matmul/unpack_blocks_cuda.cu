// unpack_blocks: y[n, k] = the elements of blocks[n, b, bytes], or round(element / scale[n]) in E4M3
//
// Shapes     blocks dense, rows of y with innermost stride 1.
// Dtypes     y f32, bf16, f16 or E4M3; f32 arithmetic; equal to the oracle bit for bit.
// Alignment  blocks at even addresses; rows of y at multiples of 16 bytes (8 for E4M3), others element by element.
// Bytes      blocks read once, y written once: bound by memory. Q4_K to bf16 reads 0.56 bytes an element and writes 2.
//
// A thread makes 8 elements, which are 8 bytes of integers in every format, or parts of them: integers are masked in
// words of 8 bytes. A byte b becomes a float by arithmetic on its bits, 2^23 + b, because conversions run at a fourth
// of the rate of additions. Neighbouring threads read the same lines, and the scales of a block from the first-level
// cache.

#include "base/error.hpp"
#include "base/tensors/block_layout_inl.hpp"
#include "kernels/core/cuda/float8.cuh"
#include "kernels/core/cuda/launch.cuh"
#include "kernels/matmul/unpack_blocks_cuda.hpp"

namespace headroom::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kPack = 8;       // elements of a thread at a time
constexpr int kPerThread = 2;  // packs

/// E4M3 in memory.
struct F8 {
  std::uint8_t bits;
};

/// Packs of 8 elements are counted through all rows.
struct Packs8 {
  std::uint32_t count, of_a_row;
  std::int64_t row_stride;  // of y, in elements
  bool is_wide;             // packs of y are aligned
};

template <class Layout>
__device__ __forceinline__ void unpack_pack(const std::uint8_t* block, int first, float (&values)[kPack]) {
  const block_layout::Word integers = Layout::integers(block, first);
  const int group = first / Layout::kGroup;
  const float scale = Layout::scale(block, group);
  float minimum = 0;
  if constexpr (Layout::kHasMinimum) minimum = Layout::minimum(block, group);
  const std::uint32_t words[2] = {static_cast<std::uint32_t>(integers), static_cast<std::uint32_t>(integers >> 32)};
  constexpr float kOffset = 8388608.0F + Layout::kZero;  // 2^23, exactly
#pragma unroll
  for (int i = 0; i < kPack; ++i) {
    const float shifted = __uint_as_float(__byte_perm(words[i / 4], 0x4B000000U, 0x7440U + i % 4));
    values[i] = __fmul_rn(scale, __fsub_rn(shifted, kOffset));
    if constexpr (Layout::kHasMinimum) values[i] = __fsub_rn(values[i], minimum);
  }
}

template <class T>
__device__ __forceinline__ void store_pack(const float (&values)[kPack], T* to, bool is_wide) {
  if (is_wide) {
    if constexpr (sizeof(T) == 1)
      store_f8(values, reinterpret_cast<std::uint8_t*>(to));
    else
      Packs<T, kPack>::store(values, to);
    return;
  }
#pragma unroll
  for (int i = 0; i < kPack; ++i) {
    if constexpr (sizeof(T) == 1)
      to[i] = {static_cast<std::uint8_t>(pack_f8(values[i], 0.0F))};
    else
      to[i] = from_float<T>(values[i]);
  }
}

template <class Layout, class T>
__global__ void __launch_bounds__(kThreads)
    unpack_blocks_kernel(Packs8 packs, const std::uint8_t* blocks, const float* scales, T* y) {
  wait_for_previous();
  constexpr int kOfABlock = Layout::kElements / kPack;
#pragma unroll
  for (int k = 0; k < kPerThread; ++k) {
    const std::uint32_t pack = (blockIdx.x * kPerThread + k) * kThreads + threadIdx.x;
    if (pack >= packs.count) return;
    float values[kPack];
    unpack_pack<Layout>(blocks + static_cast<std::int64_t>(pack / kOfABlock) * Layout::kBytes,
                        static_cast<int>(pack % kOfABlock) * kPack, values);
    const std::uint32_t row = pack / packs.of_a_row, column = pack - row * packs.of_a_row;
    if constexpr (sizeof(T) == 1) {
      const float inverse = __frcp_rn(scales[row]);
#pragma unroll
      for (int i = 0; i < kPack; ++i) values[i] = __fmul_rn(values[i], inverse);
    }
    store_pack(values, y + row * packs.row_stride + column * kPack, packs.is_wide);
  }
}

template <class T, class Launch>
void launch_to(const UnpackBlocks& work, const Launch& launch, void* y) {
  const auto pack_bytes = static_cast<std::uintptr_t>(sizeof(T) == 1 ? kPack : 16);
  const bool is_wide = reinterpret_cast<std::uintptr_t>(y) % pack_bytes == 0 && work.row_stride % kPack == 0;
  launch(is_wide, static_cast<T*>(y));
}

}  // namespace

void launch_unpack_blocks(void* stream, const UnpackBlocks& work, const void* blocks, const float* scales, void* y) {
  const std::int64_t of_a_row = work.columns / kPack, count = work.rows * of_a_row;
  if (count == 0) return;
  HR_CHECK_EQ(reinterpret_cast<std::uintptr_t>(blocks) % 2, 0U);
  const bool is_known = block_layout::with_layout(work.format, [&](auto layout) {
    using Layout = decltype(layout);
    const auto launch = [&](bool is_wide, auto* to) {
      using T = std::remove_pointer_t<decltype(to)>;
      const bool is_one_row = scales == nullptr && work.row_stride == work.columns;
      const Packs8 packs{.count = static_cast<std::uint32_t>(count),
                         .of_a_row = static_cast<std::uint32_t>(is_one_row ? count : of_a_row),
                         .row_stride = work.row_stride,
                         .is_wide = is_wide};
      launch_early(
          unpack_blocks_kernel<Layout, T>,
          {blocks_along_x(divide_up(count, kThreads * kPerThread)), kThreads, static_cast<cudaStream_t>(stream)}, packs,
          static_cast<const std::uint8_t*>(blocks), scales, to);
    };
    if (work.to == DType::kF8E4M3) return launch_to<F8>(work, launch, y);
    with_type_of(work.to, [&](auto type) { launch_to<decltype(type)>(work, launch, y); });
  });
  HR_CHECK(is_known);
  check_launched("cuda unpack_blocks kernel");
}

}  // namespace headroom::cuda
