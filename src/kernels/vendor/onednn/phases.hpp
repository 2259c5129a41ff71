#pragma once

#include <optional>

#include "kernels/core/library_kernel.hpp"

namespace headroom::onednn {

/// A transposed convolution of stride [sh, sw] as sh * sw convolutions of stride 1, whose kernels are faster than
/// those of a deconvolution. The results of one phase, y[b, o, sh*i + r, sw*j + s], depend on every sh-th row and
/// every sw-th column of the weight. Each phase is computed in the scratch and copied to its place; the weight is
/// packed once, phase by phase.
///
/// Nothing if that is not possible or does not pay: stride 1, groups, dilation, a weight that changes, row-major
/// images, a result size that the stride does not divide, a phase that uses no row of the weight or leaves out rows
/// of x, or no fast convolution.
[[nodiscard]] std::optional<KernelPlan> plan_phases(const KernelBinding& binding);

}  // namespace headroom::onednn
