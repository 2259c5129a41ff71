#pragma once

#include <optional>

#include "kernels/core/library_kernel.hpp"

namespace headroom::onednn {

/// A transposed convolution of stride [sh, sw] as sh * sw convolutions of stride 1, whose kernels are faster than those of a
/// deconvolution: the results of one phase, y[b, o, sh*i + r, sw*j + s], hear every sh-th row and every sw-th column of the weight. Each
/// is made in the scratch and put where it belongs; the weight is packed once, phase by phase.
///
/// Nothing where that is not so or does not pay: of stride 1, with groups, dilation, a weight that changes, row-major
/// images, results of a size that the stride does not divide, a phase that hears no row of the weight or leaves out rows of x, or without a fast convolution.
[[nodiscard]] std::optional<KernelPlan> plan_phases(const KernelBinding& binding);

}  // namespace headroom::onednn
