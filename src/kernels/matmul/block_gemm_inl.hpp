// GEMMs of small f32 matrices, blocked for registers: attention's work on a tile of keys. Compiled once for each
// vector unit, so it has a toggling guard in place of #pragma once, and is included after foreach_target.h.

#if defined(HEADROOM_KERNELS_BLOCK_GEMM_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef HEADROOM_KERNELS_BLOCK_GEMM_INL
#undef HEADROOM_KERNELS_BLOCK_GEMM_INL
#else
#define HEADROOM_KERNELS_BLOCK_GEMM_INL
#endif

#include "kernels/core/simd_inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace headroom {
namespace HWY_NAMESPACE {

inline constexpr std::int64_t kBlockVectors = 3;  // of B, the columns of a block

/// Rows of A that one pass takes: with three vectors of B, as many sums as the registers hold.
inline constexpr std::int64_t kRows = HWY_TARGET <= HWY_AVX3 ? 8 : 4;

struct Matrix {
  const float* data;
  std::int64_t row;   // distance of rows
  std::int64_t step;  // distance along the depth of the GEMM
};

/// c[m, n] = sum_k a[m, k] b[k, n] for kM rows and kN vectors; with a `factor`, plus factor[m] c[m, n].
template <int kM, int kN, bool kResume>
HWY_INLINE void multiply_tile(std::int64_t depth, Matrix a, const float* HWY_RESTRICT b, std::int64_t b_row,
                              float* HWY_RESTRICT c, std::int64_t c_row, const float* HWY_RESTRICT factor) {
  const Float d;
  Vector sum[kM][kN];
  for (int m = 0; m < kM; ++m)
    for (int n = 0; n < kN; ++n)
      sum[m][n] = kResume ? hn::Mul(hn::Set(d, factor[m]), hn::LoadU(d, c + m * c_row + n * lanes())) : hn::Zero(d);
  for (std::int64_t k = 0; k < depth; ++k) {
    Vector column[kN];
    for (int n = 0; n < kN; ++n) column[n] = hn::LoadU(d, b + k * b_row + n * lanes());
    for (int m = 0; m < kM; ++m) {
      const Vector element = hn::Set(d, a.data[m * a.row + k * a.step]);
      for (int n = 0; n < kN; ++n) sum[m][n] = hn::MulAdd(element, column[n], sum[m][n]);
    }
  }
  for (int m = 0; m < kM; ++m)
    for (int n = 0; n < kN; ++n) hn::StoreU(sum[m][n], d, c + m * c_row + n * lanes());
}

/// The same for any number of rows below kRows.
template <int kM, int kN, bool kResume>
HWY_INLINE void multiply_rest(std::int64_t rows, std::int64_t depth, Matrix a, const float* b, std::int64_t b_row,
                              float* c, std::int64_t c_row, const float* factor) {
  if (rows == kM) return multiply_tile<kM, kN, kResume>(depth, a, b, b_row, c, c_row, factor);
  if constexpr (kM > 1) multiply_rest<kM - 1, kN, kResume>(rows, depth, a, b, b_row, c, c_row, factor);
}

template <int kN, bool kResume>
HWY_NOINLINE void multiply_columns(std::int64_t rows, std::int64_t depth, Matrix a, const float* b, std::int64_t b_row,
                                   float* c, std::int64_t c_row, const float* factor) {
  std::int64_t m = 0;
  for (; m + kRows <= rows; m += kRows) {
    const Matrix here{a.data + m * a.row, a.row, a.step};
    multiply_tile<kRows, kN, kResume>(depth, here, b, b_row, c + m * c_row, c_row, kResume ? factor + m : nullptr);
  }
  if (m == rows) return;
  const Matrix here{a.data + m * a.row, a.row, a.step};
  multiply_rest<kRows - 1, kN, kResume>(rows - m, depth, here, b, b_row, c + m * c_row, c_row,
                                        kResume ? factor + m : nullptr);
}

/// c = a b over `vectors` vectors of columns; plus factor c if `factor` is given.
HWY_INLINE void multiply(std::int64_t rows, std::int64_t vectors, std::int64_t depth, Matrix a, const float* b,
                         std::int64_t b_row, float* c, std::int64_t c_row, const float* factor) {
  const std::int64_t passes = (vectors + kBlockVectors - 1) / kBlockVectors;
  for (std::int64_t pass = 0; pass < passes; ++pass) {
    const std::int64_t from = vectors * pass / passes;
    const std::int64_t count = vectors * (pass + 1) / passes - from;
    const auto run = [&](auto kernel) {
      kernel(rows, depth, a, b + from * lanes(), b_row, c + from * lanes(), c_row, factor);
    };
    if (factor != nullptr)
      run(count == 3 ? multiply_columns<3, true> : count == 2 ? multiply_columns<2, true> : multiply_columns<1, true>);
    else
      run(count == 3   ? multiply_columns<3, false>
          : count == 2 ? multiply_columns<2, false>
                       : multiply_columns<1, false>);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace headroom
HWY_AFTER_NAMESPACE();

#endif
