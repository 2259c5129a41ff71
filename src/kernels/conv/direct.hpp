#pragma once

#include <vector>

#include "kernels/conv/problem.hpp"

/// Convolutions by our own kernels for Hopper with few channels on one side or both: narrow.cu, few.cu, several.cu and
/// many_to_few.cu.
namespace headroom::convolutions {

/// Changes with the kernels: which of their ways was fastest is kept on disk.
inline constexpr int kNarrowRevision = 4;

/// Why they do not take a problem. They do, on compute capability 9.0 and in bf16 or f16 with channels last: 3x3 with padding 1 from 64
/// channels to 64, also with stride 2, and the transposed 4x4 that doubles an image; from at most 16 to a multiple of 64, and from a
/// multiple of 32 to at most 16.
[[nodiscard]] Support why_not_narrow(const Problem& problem, const Target& target);

/// Best guess first.
[[nodiscard]] std::vector<Algorithm> make_direct_algorithms(const Problem& problem, const Target& target);

}  // namespace headroom::convolutions
