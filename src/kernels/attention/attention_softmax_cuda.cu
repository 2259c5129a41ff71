// The softmax of attention, over rows of scores: p[j] = exp(s[j] - max) / sum_k exp(s[k] - max), s = scale * x +
// bias, and log(sum_k exp(s[k])). A key that a query does not see has s = -inf; if a query sees nothing, p is 0.
// Scores that are all -inf where every query sees a key give NaN, as any softmax does.
//
// Dtypes     f32, bf16 or f16 in memory, f32 arithmetic, one rounding; a bias of the same or a mask of bool.
// Bytes      scores read and written once, in packs of 16 bytes: a row stays in registers (up to 32768 elements in 16
//            bits; longer ones are read three times). The bias is read element by element, because it comes from the
//            cache: heads share it.

#include "kernels/attention/attention_softmax_cuda.hpp"
#include "kernels/core/cuda/row_cache.cuh"

namespace headroom::cuda {
namespace {

template <class T>
struct ScoreSoftmax {
  float scale;
  ScoreRows::Bias kind;
  bool may_see_none;
  std::int64_t diagonal, queries, first_query;
  T* scores;
  const void* bias;
  float* logsumexp;

  /// Products and sums are rounded one by one: the largest score less itself is 0, whichever pass computes it.
  __device__ __forceinline__ float score(float x, std::int64_t place, std::int64_t column, std::int64_t seen) const {
    const float scaled = __fmul_rn(x, scale);
    if (column >= seen) return -__builtin_huge_valf();
    if (kind == ScoreRows::Bias::kAdded)
      return __fadd_rn(scaled, to_float(static_cast<const T*>(bias)[place + column]));
    if (kind == ScoreRows::Bias::kMask && static_cast<const std::uint8_t*>(bias)[place + column] == 0)
      return -__builtin_huge_valf();
    return scaled;
  }

  /// 2^x log2(e) by the hardware, off by 1e-6, where 16 bits keep 4e-3.
  static __device__ __forceinline__ float exponential(float x) {
    if constexpr (sizeof(T) == sizeof(float)) {
      return expf(x);
    } else {
      float power;
      asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x * 1.4426950408889634F));
      return power;
    }
  }

  template <int kWidth, int kPerThread>
  __device__ __forceinline__ void run(const RowPlace<3>& place) const {
    constexpr bool kIsKept = kPerThread > 0;  // in registers, as the pass before left it
    const std::int64_t index = static_cast<std::int64_t>(blockIdx.x) * blockDim.y + threadIdx.y;
    const std::int64_t query = first_query + divide(index, queries).remainder;
    const std::int64_t seen = query + diagonal + 1;
    T* const to = scores + place.offsets[0];
    Row<T, kWidth, kPerThread> row(to, place.packs);
    float most = Max::kNeutral;
    row.for_each([&](int pack, float(&x)[kWidth]) {
#pragma unroll
      for (int i = 0; i < kWidth; ++i) {
        x[i] = score(x[i], place.offsets[1], std::int64_t{pack} * kWidth + i, seen);
        most = fmaxf(most, x[i]);
      }
    });
    most = join_row<Max>(most);
    const float reference = most == Max::kNeutral ? 0.0F : most;
    float sum = 0;
    row.for_each([&](int pack, float(&x)[kWidth]) {
#pragma unroll
      for (int i = 0; i < kWidth; ++i) {
        if (!kIsKept) x[i] = score(x[i], place.offsets[1], std::int64_t{pack} * kWidth + i, seen);
        x[i] = exponential(x[i] - reference);
        sum += x[i];
      }
    });
    sum = join_row<Sum>(sum);
    if (!place.exists) return;
    const bool sees_none = sum == 0 && may_see_none;
    const float inverse = sees_none ? 0.0F : 1.0F / sum;
    row.for_each([&](int pack, float(&x)[kWidth]) {
#pragma unroll
      for (int i = 0; i < kWidth; ++i) {
        if (!kIsKept)
          x[i] = exponential(score(x[i], place.offsets[1], std::int64_t{pack} * kWidth + i, seen) - reference);
        x[i] *= inverse;
      }
      Packs<T, kWidth>::store(x, to + std::int64_t{pack} * kWidth);
    });
    if (logsumexp != nullptr && threadIdx.x == 0)
      logsumexp[place.offsets[2]] = sees_none || sum != 0 ? reference + logf(sum) : __builtin_nanf("");
  }
};

}  // namespace

void launch_attention_softmax(void* stream, const ScoreRows& rows, void* scores, const void* bias, float* logsumexp) {
  if (rows.grid.rows * rows.grid.length == 0) return;
  with_type_of(rows.dtype, [&](auto type) {
    using T = decltype(type);
    constexpr int kFull = kFullPack<T>;
    const bool is_wide = rows.grid.length % kFull == 0 && reinterpret_cast<std::uintptr_t>(scores) % 16 == 0;
    launch_rows<T>(static_cast<cudaStream_t>(stream), rows.grid, is_wide,
                   ScoreSoftmax<T>{rows.scale, rows.bias, rows.may_see_none, rows.diagonal, rows.queries,
                                   rows.first_query, static_cast<T*>(scores), bias, logsumexp});
  });
  check_launched("cuda attention softmax kernel");
}

}  // namespace headroom::cuda
