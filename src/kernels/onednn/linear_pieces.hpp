#pragma once

#include <memory>

#include "kernels/onednn/linear_product.hpp"

namespace headroom::onednn {

/// Whether prepare_piecewise_linear() is the faster way: the weight stays in a core's cache, and either an activation
/// follows many rows, or the rows fall into several products, or there are enough of them for threads to share pieces.
[[nodiscard]] bool piecewise_pays(const LinearProblem& problem, const RowPlan& rows, int threads);

/// A linear made in pieces of a few dozen rows. Each thread takes pieces of its own: oneDNN, on one thread, writes the
/// sums of a piece as f32 into scratch that stays in the core's cache, and our row kernel adds the bias, takes the
/// activation and rounds once, from there into y. Without an activation the product goes straight into y.
///
/// Why: oneDNN's own activations take 20 (f32) to 33 (bf16) cycles for 16 elements, on AMX twice the time of the
/// product before them; a product for each of 20 short stretches of rows costs a fork and join each time; and oneDNN
/// gives each thread an equal part beforehand, so that a product takes as long as the slowest core needs for that. A
/// forward pass of a small FLUX in fp32, all launches in shared parts, takes 370 ms in place of 450 on two cores one of
/// which a busy loop takes too, and the same 190 ms where none does.
[[nodiscard]] std::unique_ptr<PreparedKernel> prepare_piecewise_linear(const LinearProblem& problem,
                                                                       const RowPlan& rows, int threads);

}  // namespace headroom::onednn
