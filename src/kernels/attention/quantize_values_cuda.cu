// quantize_values: v[b, g, t, e] -> q[b, g, e, t rounded up to a multiple of 128] in e4m3, with one scale for each
// channel of a head, and the keys of every 16 in the order of the op.
//
// Shapes     t any, e a multiple of 8; channels of a token next to each other, at multiples of 16 bytes.
// Dtypes     v bf16 or f16; f32 arithmetic, ties to even; equal to the oracle bit for bit.
// Bytes      v once up to 16384 tokens, q once: 42 MB for 24 heads of 4608 x 128. No FLOPs to speak of.
//
// The blocks of a cluster have a slice of a head's channels, and share its tokens. A warp has 8 channels of a run of
// tokens, and keeps them in registers: a thread those of each 16 that make 4 bytes of q. The blocks exchange the
// largest magnitude of each channel; then threads quantize what they kept, and a warp writes 128 bytes of a channel at
// once. If the tokens are more than the cluster can keep, it takes several rounds, and reads all but the last again.
//
// All that is kept is about what all multiprocessors have of registers, so a kernel of this kind is bound by how well
// its blocks fill them: hence two forms. On an H200 24 heads of 4608 x 128 take 19 us, 24 of 1536 8 us and 16 of 16384
// 45 us; reading v twice took at least 30% longer.

#include <cuda_runtime_api.h>

#include <algorithm>
#include <type_traits>

#include "backends/cuda/early_launch.cuh"
#include "base/tensors/divide_up.hpp"
#include "kernels/attention/quantize_values_cuda.hpp"
#include "kernels/core/cuda/device.cuh"
#include "kernels/core/cuda/float8.cuh"
#include "kernels/core/cuda/hopper.cuh"
#include "kernels/core/cuda/large_launch.cuh"
#include "kernels/core/cuda/launched.hpp"

namespace headroom::cuda {
namespace {

constexpr int kMostCluster = 8;  // blocks that every GPU with clusters permits
constexpr int kGroup = 16;       // tokens whose order in q is not theirs
constexpr int kPack = 8;         // channels of a warp
constexpr int kGroupsOfWarp = 8;

/// How many warps a block has, how many of them have different channels, and how many times kGroupsOfWarp groups each
/// keeps.
template <int kWarpsOfBlock, int kPacksOfBlock, int kPiecesOfWarp>
struct ValueForm {
  static constexpr int kThreads = 32 * kWarpsOfBlock, kPacks = kPacksOfBlock, kPieces = kPiecesOfWarp;
  static constexpr int kChannels = kPacks * kPack, kWarpsOfPack = kWarpsOfBlock / kPacks;
  static constexpr int kGroups = kWarpsOfPack * kPieces * kGroupsOfWarp;  ///< that a block keeps
};
using FewOrManyTokens = ValueForm<8, 2, 4>;
using SomeThousandTokens = ValueForm<12, 4, 3>;

/// The larger of both halves of a and of the magnitudes in b; NaN where one is.
__device__ __forceinline__ std::uint32_t largest_magnitudes(std::uint32_t a, std::uint32_t b, Bf16 /*type*/) {
  std::uint32_t larger;
  asm("max.NaN.bf16x2 %0, %1, %2;" : "=r"(larger) : "r"(a), "r"(b & 0x7FFF7FFFU));
  return larger;
}
__device__ __forceinline__ std::uint32_t largest_magnitudes(std::uint32_t a, std::uint32_t b, F16 /*type*/) {
  std::uint32_t larger;
  asm("max.NaN.f16x2 %0, %1, %2;" : "=r"(larger) : "r"(a), "r"(b & 0x7FFF7FFFU));
  return larger;
}

/// A half of two elements, the lower one first.
template <class T>
__device__ __forceinline__ float half_of(std::uint32_t two, int half) {
  if constexpr (std::is_same_v<T, Bf16>) return __uint_as_float(half == 0 ? two << 16 : two & 0xFFFF0000U);
  return to_float(T{static_cast<std::uint16_t>(two >> 16 * half)});
}

/// 8 channels of a token.
union Token {
  uint4 all;
  std::uint32_t twos[kPack / 2];
};

template <class T, class Form>
__global__ void __launch_bounds__(Form::kThreads, 2)
    quantize_values_kernel(const ValueRows rows, int cluster, const T* v, std::uint8_t* q, float* scales) {
  constexpr int kPacks = Form::kPacks, kPieces = Form::kPieces, kWarpsOfPack = Form::kWarpsOfPack;
  __shared__ float peaks[Form::kChannels][kMostCluster * kWarpsOfPack + 1];  // of all warps of the cluster
  wait_for_previous();
#if HR_HAS_HOPPER
  if (cluster > 1) hopper::begin_in_cluster();
#endif
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  const int pack = warp % kPacks, row = warp / kPacks, quarter = lane % 4;
  const int member = static_cast<int>(blockIdx.x) % cluster, slice = static_cast<int>(blockIdx.x) / cluster;
  const int slices = (rows.channels + Form::kChannels - 1) / Form::kChannels;
  const int head = slice / slices, channel = slice % slices * Form::kChannels + pack * kPack;  // the warp's first
  const T* const from = v + head / rows.heads * rows.batch_stride + head % rows.heads * rows.head_stride + channel;
  const int groups = channel < rows.channels ? rows.padded / kGroup : 0;
  const int first = (member * kWarpsOfPack + row) * kPieces * kGroupsOfWarp, stride = cluster * Form::kGroups;

  Token kept[kPieces][4];
  const auto read = [&](int begin) {  // a run of groups
#pragma unroll
    for (int piece = 0; piece < kPieces; ++piece) {
      const int token = (begin + piece * kGroupsOfWarp + lane / 4) * kGroup + 2 * quarter;
      const T* const at = from + static_cast<std::int64_t>(token) * rows.token_stride;
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int more = i / 2 * 8 + i % 2;
        kept[piece][i].all =
            token + more < rows.tokens ? *reinterpret_cast<const uint4*>(at + more * rows.token_stride) : uint4{};
      }
    }
  };

  Token magnitudes{};
  int begin = first;
  for (; begin < groups; begin += stride) {
    read(begin);
#pragma unroll
    for (auto& piece : kept)
#pragma unroll
      for (const Token& token : piece)
#pragma unroll
        for (int k = 0; k < kPack / 2; ++k)
          magnitudes.twos[k] = largest_magnitudes(magnitudes.twos[k], token.twos[k], T());
  }
#pragma unroll
  for (int other = 1; other < 32; other *= 2)
#pragma unroll
    for (std::uint32_t& two : magnitudes.twos)
      two = largest_magnitudes(two, __shfl_xor_sync(0xFFFFFFFFU, two, other), T());

  const int mine = member * kWarpsOfPack + row;
  float(*const my_peaks)[kMostCluster * kWarpsOfPack + 1] = peaks + pack * kPack;
#if HR_HAS_HOPPER
  if (cluster > 1) {
    hopper::wait_for_cluster();  // all have begun
    if (lane < cluster)
#pragma unroll
      for (int k = 0; k < kPack; ++k)
        hopper::store_in_block(&my_peaks[k][mine], lane, half_of<T>(magnitudes.twos[k / 2], k % 2));
    hopper::arrive_in_cluster();
    hopper::wait_for_cluster();
  } else
#endif
  {
    if (lane == 0)
#pragma unroll
      for (int k = 0; k < kPack; ++k) my_peaks[k][mine] = half_of<T>(magnitudes.twos[k / 2], k % 2);
    __syncthreads();
  }
  float peak = 0;  // of channel lane / 4
  for (int i = quarter; i < cluster * kWarpsOfPack; i += 4) peak = largest_magnitude(peak, my_peaks[lane / 4][i]);
#pragma unroll
  for (int other = 1; other < 4; other *= 2) peak = largest_magnitude(peak, __shfl_xor_sync(0xFFFFFFFFU, peak, other));
  const RowScale scale = scale_of_row(peak);
  const std::int64_t row_of_q = static_cast<std::int64_t>(head) * rows.channels + channel;
  if (member == 0 && row == 0 && quarter == 0 && groups > 0) scales[row_of_q + lane / 4] = scale.scale;
  float inverse[kPack];
#pragma unroll
  for (int k = 0; k < kPack; ++k) inverse[k] = __shfl_sync(0xFFFFFFFFU, scale.inverse, 4 * k);
  const bool has_zeros = __any_sync(0xFFFFFFFFU, scale.inverse == 0.0F);  // a channel of zeros, or without a scale

  for (bool is_kept = true; (begin -= stride) >= first; is_kept = false) {
    if (!is_kept) read(begin);
    if (has_zeros)
#pragma unroll
      for (int k = 0; k < kPack / 2; ++k) {
        const std::uint32_t mask =
            (inverse[2 * k] == 0.0F ? 0U : 0xFFFFU) | (inverse[2 * k + 1] == 0.0F ? 0U : 0xFFFF0000U);
#pragma unroll
        for (auto& piece : kept)
#pragma unroll
          for (Token& token : piece) token.twos[k] &= mask;
      }
    std::uint8_t* to = q + row_of_q * rows.padded + (begin + lane / 4) * kGroup + 4 * quarter;
#pragma unroll
    for (int k = 0; k < kPack; ++k, to += rows.padded)
#pragma unroll
      for (int piece = 0; piece < kPieces; ++piece) {
        const auto element = [&](int i) {
          return __fmul_rn(half_of<T>(kept[piece][i].twos[k / 2], k % 2), inverse[k]);
        };
        if (begin + piece * kGroupsOfWarp < groups)
          *reinterpret_cast<std::uint32_t*>(to + piece * kGroupsOfWarp * kGroup) =
              pack_f8(element(0), element(1)) | pack_f8(element(2), element(3)) << 16;
      }
  }
}

}  // namespace

void launch_quantize_values(void* stream, const ValueRows& rows, const void* v, std::uint8_t* q, float* scales) {
  const int groups = rows.padded / kGroup;
  const auto launch = [&]<class Form>(Form) {
    const int cluster = rows.has_clusters ? std::min(divide_up(groups, Form::kGroups), kMostCluster) : 1;
    const int slices = rows.batch * rows.heads * divide_up(rows.channels, Form::kChannels);
    with_small_type_of(rows.dtype, [&](auto type) {
      using T = decltype(type);
      launch_early(quantize_values_kernel<T, Form>,
                   {.blocks = dim3(static_cast<unsigned>(slices * cluster)),
                    .threads = dim3(Form::kThreads),
                    .stream = static_cast<cudaStream_t>(stream),
                    .cluster = cluster > 1 ? cluster : 0},
                   rows, cluster, static_cast<const T*>(v), q, scales);
    });
  };
  if (groups > FewOrManyTokens::kGroups && groups <= kMostCluster * SomeThousandTokens::kGroups)
    launch(SomeThousandTokens());
  else
    launch(FewOrManyTokens());
  check_launched("cuda quantize_values kernel");
}

}  // namespace headroom::cuda
