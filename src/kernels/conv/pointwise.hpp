#pragma once

#include <string_view>

#include "kernels/conv/problem.hpp"

/// Products of rows, y[m, n] = activation(x[m, k] * weight[n, k]^T + bias + residual), as convolutions of single pixels, which is what linears
/// and 1x1 convolutions of channels-last images are: one search for the fastest way serves both.
namespace headroom::convolutions {

/// Whether a problem is one: 1x1 on channels-last images, with stride 1 and without padding, groups or a shortcut.
[[nodiscard]] bool is_pointwise(const Problem& problem);

/// The same product over pixels in lines of 8, where their number lets it be so, whatever the image was: equal products are equal
/// problems, and a tile of 8x8 pixels is 64 rows that follow each other.
[[nodiscard]] Problem in_lines(const Problem& product);

/// What the name of a product by cuBLASLt begins with.
inline constexpr std::string_view kPointwiseAlgorithm = "cuBLASLt ";
/// It by cuBLASLt: bias and residual, or bias and the tanh form of gelu, in the product where the library has an algorithm for that;
/// what is left by a kernel behind it. Throws Error where the library has none or is not there.
[[nodiscard]] Algorithm make_pointwise_algorithm(const Problem& product, const Target& target);

/// The name of a product by our own kernel for a few rows.
inline constexpr std::string_view kGemvAlgorithm = "few rows";
/// Whether that takes a problem: a product of up to four rows, of whole packs of 16 bytes, without a residual.
[[nodiscard]] bool has_few_rows(const Problem& problem);
[[nodiscard]] Algorithm make_gemv_algorithm(const Problem& product);

}  // namespace headroom::convolutions
