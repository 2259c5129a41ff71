// quantize_values: v[b, g, t, e] -> q[b, g, e, t rounded up to a multiple of 128] in e4m3, with one scale for each
// channel of a head, and the keys of every 16 in the order of the op.
//
// Shapes     t any, e a multiple of 16; channels of a token next to each other, at multiples of 16 bytes.
// Dtypes     v bf16 or f16; f32 arithmetic, ties to even; equal to the oracle bit for bit.
// Bytes      v twice, the second time from the second-level cache: 28 MB for 24 heads of 4608 x 128, which fit there.
//            q once. No FLOPs to speak of.
//
// A block has 16 channels of a head, 32 bytes of a token, which is the least that memory gives: first for their
// largest magnitudes, then for their elements. A thread then has 8 channels of 16 tokens: 16 reads of 16 bytes in
// flight, and 8 writes of 16 bytes, each next to those of its neighbours. So nothing passes through shared memory but
// the maxima.

#include <cuda_runtime_api.h>

#include "backends/cuda/early_launch.cuh"
#include "kernels/attention/quantize_values_cuda.hpp"
#include "kernels/core/cuda/device.cuh"
#include "kernels/core/cuda/float8.cuh"
#include "kernels/core/cuda/large_launch.cuh"
#include "kernels/core/cuda/launched.hpp"

namespace headroom::cuda {
namespace {

constexpr int kThreads = 192;  // divides the 576 pieces of 4608 tokens
constexpr int kPack = 8;       // channels of a thread
constexpr int kHalves = 2;     // packs of a block
constexpr int kGroup = 16;     // tokens of a thread

template <class T>
__global__ void __launch_bounds__(kThreads)
    quantize_values_kernel(const ValueRows rows, const T* v, std::uint8_t* q, float* scales) {
  constexpr int kWarps = kThreads / 32;
  __shared__ float peaks[kWarps][kHalves * kPack];
  wait_for_previous();
  const int thread = static_cast<int>(threadIdx.x), half = thread % kHalves;
  const int slices = rows.channels / (kHalves * kPack);
  const int head = static_cast<int>(blockIdx.x) / slices, slice = static_cast<int>(blockIdx.x) % slices;
  const int channel = slice * kHalves * kPack;  // the block's first
  const T* const from =
      v + head / rows.heads * rows.batch_stride + head % rows.heads * rows.head_stride + channel + half * kPack;
  const auto read = [&](int token, float(&x)[kPack]) {
    Packs<T, kPack>::expand(Packs<T, kPack>::read(from + token * rows.token_stride), x);
  };

  float peak[kPack] = {};
#pragma unroll 8
  for (int token = thread / kHalves; token < rows.tokens; token += kThreads / kHalves) {
    float x[kPack];
    read(token, x);
#pragma unroll
    for (int i = 0; i < kPack; ++i) peak[i] = largest_magnitude(peak[i], x[i]);
  }
#pragma unroll
  for (int i = 0; i < kPack; ++i) {
#pragma unroll
    for (int other = kHalves; other < 32; other *= 2)
      peak[i] = largest_magnitude(peak[i], __shfl_xor_sync(0xFFFFFFFFU, peak[i], other));
    if (thread % 32 < kHalves) peaks[thread / 32][half * kPack + i] = peak[i];
  }
  __syncthreads();
  RowScale scale[kPack];
#pragma unroll
  for (int i = 0; i < kPack; ++i) {
    peak[i] = 0;
#pragma unroll
    for (int warp = 0; warp < kWarps; ++warp) peak[i] = largest_magnitude(peak[i], peaks[warp][half * kPack + i]);
    scale[i] = scale_of_row(peak[i]);
  }
  const int first = head * rows.channels + channel + half * kPack;
  if (thread < kHalves)
#pragma unroll
    for (int i = 0; i < kPack; ++i) scales[first + i] = scale[i].scale;

  std::uint8_t* const to = q + static_cast<std::int64_t>(first) * rows.padded;
  for (int group = thread / kHalves; group < rows.padded / kGroup; group += kThreads / kHalves) {
    std::uint32_t words[kPack][4];
#pragma unroll
    for (int c = 0; c < 4; ++c) {
      float x[4][kPack];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int token = group * kGroup + i / 2 * 8 + 2 * c + i % 2;
        if (token < rows.tokens) {
          read(token, x[i]);
        } else {
#pragma unroll
          for (float& zero : x[i]) zero = 0;
        }
      }
#pragma unroll
      for (int k = 0; k < kPack; ++k) {
        float four[4] = {x[0][k], x[1][k], x[2][k], x[3][k]};
        quantize(four, scale[k]);
        words[k][c] = pack_f8(four[0], four[1]) | pack_f8(four[2], four[3]) << 16;
      }
    }
#pragma unroll
    for (int k = 0; k < kPack; ++k)
      *reinterpret_cast<uint4*>(to + static_cast<std::int64_t>(k) * rows.padded + group * kGroup) =
          make_uint4(words[k][0], words[k][1], words[k][2], words[k][3]);
  }
}

}  // namespace

void launch_quantize_values(void* stream, const ValueRows& rows, const void* v, std::uint8_t* q, float* scales) {
  const int blocks = rows.batch * rows.heads * (rows.channels / (kHalves * kPack));
  with_small_type_of(rows.dtype, [&](auto type) {
    using T = decltype(type);
    launch_early(quantize_values_kernel<T>,
                 {.blocks = dim3(static_cast<unsigned>(blocks)),
                  .threads = dim3(kThreads),
                  .stream = static_cast<cudaStream_t>(stream)},
                 rows, static_cast<const T*>(v), q, scales);
  });
  check_launched("cuda quantize_values kernel");
}

}  // namespace headroom::cuda
