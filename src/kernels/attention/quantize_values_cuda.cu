// quantize_values: v[b, g, t, e] -> q[b, g, e, t rounded up to a multiple of 128] in e4m3, with one scale for each
// channel of a head, and the keys of every 16 in the order of the op.
//
// Shapes     t any, e a multiple of 8; channels of a token next to each other, at multiples of 16 bytes.
// Dtypes     v bf16 or f16; f32 arithmetic, ties to even; equal to the oracle bit for bit.
// Bytes      v once up to 18432 tokens, q once: 42 MB for 24 heads of 4608 x 128. No FLOPs to speak of.
//
// The blocks of a cluster have 32 channels of a head, and share its tokens. They keep these in shared memory, where
// copies bring them without registers, exchange the largest magnitude of each channel, and then quantize. If the tokens
// are more than the cluster can keep, it takes several rounds, and reads all but the last again.
//
// Three blocks fill a multiprocessor's shared memory: 24 heads of 4608 x 128 are 384 blocks, all there at once. A copy
// of a warp reads 64 bytes of each of 8 tokens, so that every sector is read once and few lines are looked up. A
// thread quantizes 8 channels of 16 tokens, and 8 threads write 128 bytes of a channel.

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

constexpr int kMostCluster = 16;  // blocks
constexpr int kGroup = 16;        // tokens whose order in q is not theirs
constexpr int kPack = 8;          // channels of a thread
constexpr int kPackBytes = 16;    // of a token
constexpr int kPacks = 4;         // of a block
constexpr int kGroupsOfWarp = 8;  // one for each thread of a pack
constexpr int kMostWarps = 9;     // of a block; three blocks then fill a multiprocessor
constexpr int kBlocksAtOnce = 3;  // on a multiprocessor
constexpr int kChannels = kPacks * kPack;
constexpr int kTokenBytes = kPacks * kPackBytes;
constexpr int kGroupBytes = kGroup * kTokenBytes + 16;  // so that 8 groups are in different banks

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

/// Begins a copy of 16 bytes from global to shared memory, or of zeros if `exists` is false, by this thread.
__device__ __forceinline__ void copy_pack(std::byte* to, const void* from, bool exists) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(hopper::shared_address(to)), "l"(from),
               "r"(exists ? kPackBytes : 0)
               : "memory");
}

/// 8 channels of a token.
union Token {
  uint4 all;
  std::uint32_t twos[kPack / 2];
};

/// The blocks of a launch.
struct ValueBlocks {
  int cluster;  ///< of blocks that share a head's tokens
  int groups;   ///< that each keeps
};

template <class T>
__global__ void __launch_bounds__(32 * kMostWarps, kBlocksAtOnce)
    quantize_values_kernel(const ValueRows rows, const ValueBlocks blocks, const T* v, std::uint8_t* q, float* scales) {
  extern __shared__ __align__(16) std::byte values[];
  __shared__ uint4 peaks_of_warps[kMostWarps][kPacks];  // two channels in 32 bits
  __shared__ std::uint32_t peaks[kMostCluster][kChannels / 2];
  wait_for_previous();
#if HR_HAS_HOPPER
  if (blocks.cluster > 1) hopper::begin_in_cluster();
#endif
  const int thread = static_cast<int>(threadIdx.x), lane = thread % 32, warp = thread / 32;
  const int member = static_cast<int>(blockIdx.x) % blocks.cluster;
  const int slice = static_cast<int>(blockIdx.x) / blocks.cluster;
  const int slices = (rows.channels + kChannels - 1) / kChannels;
  const int head = slice / slices, channel = slice % slices * kChannels;  // the block's first
  const T* const from = v + head / rows.heads * rows.batch_stride + head % rows.heads * rows.head_stride + channel;
  const int groups = rows.padded / kGroup, stride = blocks.cluster * blocks.groups;
  const int first = member * blocks.groups + warp * kGroupsOfWarp;  // of the warp
  std::byte* const kept = values + warp * kGroupsOfWarp * kGroupBytes;
  const std::byte* const mine = kept + lane % kGroupsOfWarp * kGroupBytes + lane / kGroupsOfWarp * kPackBytes;

  const auto read = [&](int begin) {  // groups of the warp
    const int pack = lane % kPacks, token = begin * kGroup + lane / kPacks;
    const int left = channel + pack * kPack < rows.channels ? rows.tokens - token : 0;
    const T* at = from + pack * kPack + token * rows.token_stride;
    std::byte* const to = kept + lane / kPacks * kTokenBytes + pack * kPackBytes;
#pragma unroll
    for (int i = 0; i < kGroupsOfWarp * kGroup / 8; ++i, at += 8 * rows.token_stride)
      copy_pack(to + i / 2 * kGroupBytes + i % 2 * 8 * kTokenBytes, at, 8 * i < left);
    asm volatile("cp.async.wait_all;" ::: "memory");
    __syncwarp();
  };
  const auto token = [&](int i) {  // of this thread's group
    Token read;
    read.all = *reinterpret_cast<const uint4*>(mine + i * kTokenBytes);
    return read;
  };

  Token most{};
  int begin = first;
  for (; begin < groups; begin += stride) {
    if (begin != first) __syncwarp();  // until what was read before is not needed
    read(begin);
#pragma unroll
    for (int i = 0; i < kGroup; ++i) {
      const Token read = token(i);
#pragma unroll
      for (int k = 0; k < kPack / 2; ++k) most.twos[k] = largest_magnitudes(most.twos[k], read.twos[k], T());
    }
  }
#pragma unroll
  for (int other = 1; other < kGroupsOfWarp; other *= 2)
#pragma unroll
    for (std::uint32_t& two : most.twos) two = largest_magnitudes(two, __shfl_xor_sync(0xFFFFFFFFU, two, other), T());
  if (lane % kGroupsOfWarp == 0) peaks_of_warps[warp][lane / kGroupsOfWarp] = most.all;
#if HR_HAS_HOPPER
  if (blocks.cluster > 1) hopper::wait_for_cluster();  // all have begun
#endif
  __syncthreads();
  const int threads = static_cast<int>(blockDim.x);
  for (int i = thread; i < blocks.cluster * kChannels / 2; i += threads) {
    const int two = i % (kChannels / 2), to = i / (kChannels / 2);
    std::uint32_t largest = 0;
    for (int other = 0; other < threads / 32; ++other)
      largest = largest_magnitudes(largest, reinterpret_cast<const std::uint32_t*>(peaks_of_warps[other])[two], T());
#if HR_HAS_HOPPER
    hopper::store_in_block(reinterpret_cast<float*>(&peaks[member][two]), to, __uint_as_float(largest));
#else
    peaks[to][two] = largest;  // without clusters
#endif
  }
#if HR_HAS_HOPPER
  if (blocks.cluster > 1) {
    hopper::arrive_in_cluster();
    hopper::wait_for_cluster();
  } else
#endif
    __syncthreads();
  std::uint32_t largest = 0;  // of channel `lane` and its neighbour
  for (int i = 0; i < blocks.cluster; ++i) largest = largest_magnitudes(largest, peaks[i][lane / 2], T());
  const RowScale scale = scale_of_row(half_of<T>(largest, lane % 2));
  const std::int64_t row_of_q = static_cast<std::int64_t>(head) * rows.channels + channel;
  if (member == 0 && warp == 0 && channel + lane < rows.channels) scales[row_of_q + lane] = scale.scale;
  const int first_of_thread = lane / kGroupsOfWarp * kPack;
  float inverse[kPack];
#pragma unroll
  for (int k = 0; k < kPack; ++k) inverse[k] = __shfl_sync(0xFFFFFFFFU, scale.inverse, first_of_thread + k);

  for (bool is_kept = true; (begin -= stride) >= first; is_kept = false) {
    if (!is_kept) {
      __syncwarp();
      read(begin);
    }
    union {
      uint4 all;
      std::uint32_t fours[4];
    } made[kPack];
#pragma unroll
    for (int four = 0; four < 4; ++four) {
      const Token read[4] = {token(2 * four), token(2 * four + 1), token(2 * four + 8), token(2 * four + 9)};
#pragma unroll
      for (int k = 0; k < kPack; ++k) {
        const auto element = [&](int i) { return __fmul_rn(half_of<T>(read[i].twos[k / 2], k % 2), inverse[k]); };
        made[k].fours[four] = pack_f8(element(0), element(1)) | pack_f8(element(2), element(3)) << 16;
      }
    }
    const int group = begin + lane % kGroupsOfWarp;
    if (group >= groups || channel + first_of_thread >= rows.channels) continue;
    std::uint8_t* to = q + (row_of_q + first_of_thread) * rows.padded + group * kGroup;
#pragma unroll
    for (int k = 0; k < kPack; ++k, to += rows.padded)  // zeros for a channel of them, or without a scale
      *reinterpret_cast<uint4*>(to) = inverse[k] == 0.0F ? uint4{} : made[k].all;
  }
}

/// As few blocks of a head's tokens as can keep them all, or the most, which take several rounds.
ValueBlocks blocks_of(const ValueRows& rows) {
  const int groups = rows.padded / kGroup, most = kMostWarps * kGroupsOfWarp;
  const int parts = divide_up(groups, most);  // of a block's size
  constexpr int kMostPortable = 8;
  int cluster = rows.has_clusters ? std::min(parts, kMostCluster) : 1;
  if (cluster > kMostPortable) cluster = kMostCluster;
  const int rounds = divide_up(parts, cluster);
  return {.cluster = cluster, .groups = round_up(divide_up(groups, cluster * rounds), kGroupsOfWarp)};
}

}  // namespace

void launch_quantize_values(void* stream, const ValueRows& rows, const void* v, std::uint8_t* q, float* scales) {
  const ValueBlocks blocks = blocks_of(rows);
  const int slices = rows.batch * rows.heads * divide_up(rows.channels, kChannels);
  const LaunchShape shape = large_shape(slices * blocks.cluster, blocks.groups / kGroupsOfWarp * 32,
                                        blocks.groups * kGroupBytes, stream, blocks.cluster > 1 ? blocks.cluster : 0);
  with_small_type_of(rows.dtype, [&](auto type) {
    using T = decltype(type);
    launch_large(quantize_values_kernel<T>, shape, rows, blocks, static_cast<const T*>(v), q, scales);
  });
  check_launched("cuda quantize_values kernel");
}

}  // namespace headroom::cuda
