#pragma once

#include <optional>

#include "ir/op.hpp"

namespace headroom {

/// The attribute "activation" of a matmul, convolution or norm as an enum: "none" or a unary op. Throws Error on
/// anything else.
[[nodiscard]] Activation activation_of(const Attributes& attributes);
/// The activation that computes the same as `op`; nothing if epilogues have no such activation.
[[nodiscard]] std::optional<Activation> activation_for(Op op);
/// FLOPs per element.
[[nodiscard]] double flops_of(Activation activation);

}  // namespace headroom
