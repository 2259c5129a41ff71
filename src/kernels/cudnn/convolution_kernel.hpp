#pragma once

#include "kernels/cudnn/convolution.hpp"
#include "kernels/library_kernel.hpp"

/// What conv2d and conv_transpose2d share on cuDNN.
namespace headroom::cudnn {

/// What the spec of either op asks for.
[[nodiscard]] ConvolutionProblem problem_of(const OpSpec& spec);

/// Why the library takes no such operands: f32, bf16 or f16, with a bias of the same or f32.
[[nodiscard]] Support check_convolution(const OpSpec& spec, const Target& target);

/// Runs it. Beside channels-last images the weight has its channels last too: a folded one is packed once, others are
/// rearranged in every run. Throws CannotPrepare where the library has no engine.
[[nodiscard]] KernelPlan plan_convolution(const KernelBinding& binding);

}  // namespace headroom::cudnn
