#pragma once

#include <vector>

#include "kernels/conv/problem.hpp"

/// Convolutions by Headroom's own kernels for Hopper with few channels on one side or both: conv_64to64.cu,
/// conv_rgb.cu, conv_up_to_16_in.cu and conv_up_to_16_out.cu.
namespace headroom::convolutions {

/// Changes with the kernels: the fastest of their algorithms is kept on disk.
inline constexpr int kNarrowRevision = 4;

/// Why they do not take a problem. They require compute capability 9.0, bf16 or f16, and channels last. They take
/// 3x3 with padding 1 from 64 channels to 64, also with stride 2, and the transposed 4x4 that doubles an image; 3x3
/// from at most 16 to a multiple of 64, and from a multiple of 32 to at most 16.
[[nodiscard]] Support why_not_narrow(const Problem& problem, const Target& target);

/// Best guess first.
[[nodiscard]] std::vector<Algorithm> make_direct_algorithms(const Problem& problem, const Target& target);

}  // namespace headroom::convolutions
