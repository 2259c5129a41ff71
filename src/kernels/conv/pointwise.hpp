#pragma once

#include <string_view>

#include "kernels/conv/problem.hpp"

/// GEMMs, y[m, n] = activation(x[m, k] * weight[n, k]^T + bias + residual), as convolutions of single pixels.
/// Linears and 1x1 convolutions of channels-last images are such, so one search for the fastest algorithm serves
/// both.
namespace headroom::convolutions {

/// Whether a problem is one: 1x1 on channels-last images, with stride 1 and without padding, groups or a shortcut.
[[nodiscard]] bool is_pointwise(const Problem& problem);

/// The same GEMM over pixels in lines of 8, if their number allows it, whatever the image was. Equal GEMMs are then
/// equal problems, and a tile of 8x8 pixels is 64 consecutive rows.
[[nodiscard]] Problem in_lines(const Problem& gemm);

/// The prefix of the names of cuBLASLt's GEMMs.
inline constexpr std::string_view kPointwiseAlgorithm = "cuBLASLt ";
/// The GEMM by cuBLASLt. Bias and residual, or bias and the tanh form of gelu, are its epilogue if the library has
/// an algorithm for that; a kernel after it does the rest. Throws Error if the library has none or is missing.
[[nodiscard]] Algorithm make_pointwise_algorithm(const Problem& gemm, const DeviceTarget& target);

/// The name of a GEMM by Headroom's own kernel for up to four rows (gemv.hpp).
inline constexpr std::string_view kGemvAlgorithm = "few rows";
/// Whether gemv.hpp takes a problem: a GEMM of up to four rows, of whole packs of 16 bytes, without a residual.
[[nodiscard]] bool has_few_rows(const Problem& problem);
[[nodiscard]] Algorithm make_gemv_algorithm(const Problem& gemm);

}  // namespace headroom::convolutions
