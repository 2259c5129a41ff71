#pragma once

// The softmax of attention on a warpgroup's scores, in the layout of wgmma's results. A thread has, of row r = 16
// (t / 32) + t % 32 / 4 and of the row 8 below it, columns 2 (t % 4) and the next of every eight. Four threads
// together have both rows.

#include <cstdint>

#include "kernels/core/cuda/device.cuh"
#include "kernels/core/cuda/fragments.cuh"

namespace headroom::attentions {

/// By the hardware: off by 2^-22 of the result.
__device__ __forceinline__ float power_of_2(float exponent) {
  float power;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(exponent));
  return power;
}

/// NaN if either is, unlike fmaxf.
__device__ __forceinline__ float larger_or_nan(float a, float b) {
  float larger;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(larger) : "f"(a), "f"(b));
  return larger;
}

/// log(2^exponent * total)
__device__ __forceinline__ float natural_log(float exponent, float total) {
  return 0.69314718055994531F * (exponent + log2f(total));
}

/// Scores of keys from `left` on are none, for each of a thread's rows.
template <int kKeys>
__device__ __forceinline__ void hide_scores(float (&scores)[kKeys / 2], const int (&left)[2]) {
  const int first = static_cast<int>(threadIdx.x) % 4 * 2;
#pragma unroll
  for (int j = 0; j < kKeys / 8; ++j)
#pragma unroll
    for (int i = 0; i < 4; ++i)
      if (8 * j + first + i % 2 >= left[i / 2]) scores[4 * j + i] = cuda::Max::kNeutral;
}

template <int kColumns>
__device__ __forceinline__ void scale_rows(float (&values)[kColumns / 2], const float (&factors)[2]) {
#pragma unroll
  for (int i = 0; i < kColumns / 2; ++i) values[i] *= factors[i / 2 % 2];
}

/// Probabilities as the first operand of the second matmul, 16 keys each: a thread's scores have the same layout as
/// its part of that operand.
template <class T, int kKeys>
__device__ __forceinline__ void to_weights(const float (&scores)[kKeys / 2], uint4 (&weights)[kKeys / 16]) {
  namespace hw = cuda::hopper;
#pragma unroll
  for (int i = 0; i < kKeys / 16; ++i) {
    const float* const s = scores + 8 * i;
    weights[i] = make_uint4(hw::pack(T(), s[0], s[1]), hw::pack(T(), s[2], s[3]), hw::pack(T(), s[4], s[5]),
                            hw::pack(T(), s[6], s[7]));
  }
}

/// The largest scores of a thread's rows, and of `found` before.
template <int kKeys>
__device__ __forceinline__ void find_most(const float (&scores)[kKeys / 2], float (&found)[2]) {
  float other[2] = {cuda::Max::kNeutral, cuda::Max::kNeutral};
#pragma unroll
  for (int j = 0; j < kKeys / 8; ++j)
#pragma unroll
    for (int row = 0; row < 2; ++row) {
      const float larger = fmaxf(scores[4 * j + 2 * row], scores[4 * j + 2 * row + 1]);
      (j % 2 == 0 ? found : other)[row] = fmaxf((j % 2 == 0 ? found : other)[row], larger);
    }
#pragma unroll
  for (int row = 0; row < 2; ++row) {
    found[row] = fmaxf(found[row], other[row]);
    found[row] = fmaxf(found[row], __shfl_xor_sync(0xFFFFFFFFU, found[row], 1));
    found[row] = fmaxf(found[row], __shfl_xor_sync(0xFFFFFFFFU, found[row], 2));
  }
}

/// Two rows of a thread: the maxima that their exponentials are relative to, and the sums of these. Without
/// kMayBeNone each row has a score in its first keys; with it a row may have none at all.
template <int kKeys, bool kMayBeNone = false>
struct Softmax {
  static constexpr float kMostRaise = 8;  // as a power of 2: exponentials of up to 256 fit in an f16

  float scale;                                                 // times log2(e); above 0
  float most[2] = {cuda::Max::kNeutral, cuda::Max::kNeutral};  // scores
  float totals[2] = {0, 0};                                    // of this thread's columns until end()

  __device__ __forceinline__ explicit Softmax(float scale_of) : scale(scale_of) {}

  /// The power of 2 that exponents are relative to.
  [[nodiscard]] __device__ __forceinline__ float exponent(int row) const { return most[row] * scale; }

  /// The inverse of a row's sum, or 0 for a row without scores.
  [[nodiscard]] __device__ __forceinline__ float inverse(int row) const {
    return kMayBeNone && totals[row] == 0 ? 0 : 1 / totals[row];
  }

  __device__ __forceinline__ void begin(const float (&scores)[kKeys / 2]) { find_most<kKeys>(scores, most); }

  /// Updates the maxima by more scores. Returns whether earlier sums must be multiplied by factors, for a whole warp.
  __device__ __forceinline__ bool raise(const float (&scores)[kKeys / 2], float (&factors)[2]) {
    float now[2] = {most[0], most[1]};
    find_most<kKeys>(scores, now);
    const bool is_large = (now[0] - most[0]) * scale > kMostRaise || (now[1] - most[1]) * scale > kMostRaise;
    if (__any_sync(0xFFFFFFFFU, static_cast<int>(is_large)) == 0) return false;
#pragma unroll
    for (int row = 0; row < 2; ++row) {
      const bool stays = kMayBeNone && most[row] == now[row];  // perhaps without scores: infinity less infinity
      factors[row] = stays ? 1 : power_of_2((most[row] - now[row]) * scale);
      totals[row] *= factors[row];
      most[row] = now[row];
    }
    return true;
  }

  /// Makes scores exponentials. Products and differences are rounded at once: all of a row are off by the same factor.
  __device__ __forceinline__ void take(float (&scores)[kKeys / 2]) {
    float exponents[2] = {exponent(0), exponent(1)};
    if (kMayBeNone)
#pragma unroll
      for (float& e : exponents) e = e == cuda::Max::kNeutral ? 0 : e;
#pragma unroll
    for (int i = 0; i < kKeys / 2; ++i) {
      const int row = i / 2 % 2;
      scores[i] = power_of_2(fmaf(scores[i], scale, -exponents[row]));
      totals[row] += scores[i];
    }
  }

  __device__ __forceinline__ void end() {
#pragma unroll
    for (float& total : totals) {
      total += __shfl_xor_sync(0xFFFFFFFFU, total, 1);
      total += __shfl_xor_sync(0xFFFFFFFFU, total, 2);
    }
  }
};

}  // namespace headroom::attentions
