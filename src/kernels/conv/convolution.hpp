#pragma once

#include <string>

#include "kernels/conv/problem.hpp"
#include "kernels/core/library_kernel.hpp"
#include "kernels/core/support.hpp"

/// Convolutions on a GPU by the fastest algorithm: code that conv2d, conv2d_shortcut and conv_transpose2d share.
namespace headroom::convolutions {

/// The versions of libraries and kernels, under which the fastest algorithms are kept: choices of other versions
/// are not used.
[[nodiscard]] std::string versions();

/// The algorithm for a problem. For work large enough to matter it is the fastest, as measured
/// (tune/fastest_algorithm.hpp). The candidates are cuDNN's engines, fused and not; for 1x1 convolutions cuBLASLt's
/// GEMM and, for a few rows, Headroom's own (pointwise.hpp, gemv.hpp); on a Hopper GPU Headroom's own kernels
/// (hopper.hpp, direct.hpp). A shortcut runs together with the convolution, or in two kernels. Finding it takes
/// from 10 ms to some seconds, once. With NewWork::kTakeOver it is that of the nearest tuned size, or a guess.
/// Throws Error if there is none.
[[nodiscard]] Algorithm find_algorithm(const Problem& problem, const DeviceTarget& target);

/// The algorithm for a shortcut's GEMM, followed by that for the convolution, which adds the GEMM's result: without
/// the kernel that computes both sums.
[[nodiscard]] Algorithm make_algorithm_in_two(const Problem& problem, const DeviceTarget& target);

/// The epilogues that the kernels of an op compute.
[[nodiscard]] EpilogueForms forms_of(Op op);

/// Why no algorithm takes a spec. They take f32, bf16 or f16, with a bias of the same dtype or f32, and as the epilogue
/// of a conv2d a residual and an activation, of a conv2d_shortcut an activation, of a conv_transpose2d nothing.
[[nodiscard]] Support check(const OpSpec& spec, const Target& target);

/// Runs an algorithm. With channels-last images the weight has its channels last too, or a layout of the
/// algorithm's own: a folded one is packed once, others are rearranged in every run. Inputs are those of the op: x,
/// weight, bias if the problem has one, and residual, or a shortcut and its weight.
[[nodiscard]] KernelPlan bind(const Problem& problem, Algorithm algorithm);

/// Finds the fastest algorithm and binds it. Throws Error if there is none.
[[nodiscard]] KernelPlan plan_fastest(const Problem& problem, const DeviceTarget& target);
/// The same for a spec. Throws CannotPrepare.
[[nodiscard]] KernelPlan plan(const KernelBinding& binding);

}  // namespace headroom::convolutions
