#pragma once

#include <optional>
#include <string>

#include "kernels/attention/algorithm.hpp"

namespace headroom::cudnn {

/// Why the library cannot do attention here (not installed, too old), or nothing. Opens it at the first call.
[[nodiscard]] std::optional<std::string> why_unavailable();

/// Attention in bf16 or f16, without bias or mask of the scores, as one plan of cuDNN: its unified operation, best
/// engine of heuristic A. Strides are multiples of 8 elements, and addresses of 16 bytes. Making the first plan of
/// a process takes about half a second, others of the same kernel 25 ms (H200). Throws Error if the library has no
/// engine for it.
[[nodiscard]] attentions::Algorithm make_sdpa_algorithm(const AttentionProblem& problem, Backend& backend);

}  // namespace headroom::cudnn
