#pragma once

#include <optional>

#include "ir/op.hpp"

namespace headroom {

/// The activation that computes the same as `op`; nothing if epilogues have no such activation.
[[nodiscard]] std::optional<Activation> activation_for(Op op);
/// FLOPs per element.
[[nodiscard]] double flops_of(Activation activation);
[[nodiscard]] double flops_of(const Epilogue& epilogue);

}  // namespace headroom
