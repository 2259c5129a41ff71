#pragma once

#include <string>

#include "kernels/conv/problem.hpp"
#include "kernels/core/library_kernel.hpp"

/// Convolutions on a GPU by the fastest way there is: what conv2d, conv2d_shortcut and conv_transpose2d share.
namespace headroom::convolutions {

/// Under which the fastest ways are kept: what tells choices from those of other days.
[[nodiscard]] std::string versions();

/// The way to run a problem. Of work large enough to matter the fastest, as measured (cuda/fastest_way.hpp): cuDNN's engines, fused
/// and not, or of single pixels cuBLASLt's product and of a few our own (product.hpp), and where it is a Hopper GPU our own kernels
/// (hopper.hpp, narrow.hpp); a shortcut together with the convolution, or in two. Finding it takes from 10 ms to some seconds, once; with NewWork::kTakeOver it is that of the
/// nearest image of other size, or a guess. Throws Error where there is none.
[[nodiscard]] Algorithm find_algorithm(const Problem& problem, const Target& target);

/// The way to run a shortcut's product, and then the way to run the convolution, which adds what it has made: without the kernel that
/// sums up both.
[[nodiscard]] Algorithm make_algorithm_in_two(const Problem& problem, const Target& target);

/// Why there is no way to run it: f32, bf16 or f16, with a bias of the same or f32.
[[nodiscard]] Support check(const OpSpec& spec, const Target& target);

/// Runs a way. Beside channels-last images the weight has its channels last too, or a form of the way's own: a folded one is packed
/// once, others are rearranged in every run. Inputs are those of the op: x, weight, bias and residual, or a shortcut and its weight.
[[nodiscard]] KernelPlan bind(const Problem& problem, Algorithm algorithm);

/// Runs the one that is found. Throws Error where there is none.
[[nodiscard]] KernelPlan plan_fastest(const Problem& problem, const Target& target);
/// The same for a spec. Throws CannotPrepare.
[[nodiscard]] KernelPlan plan(const KernelBinding& binding);

}  // namespace headroom::convolutions
