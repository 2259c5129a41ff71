#pragma once

#include <optional>

#include "ir/op.hpp"

namespace headroom {

/// What the attribute "activation" of a product names: "none" or a unary op. Throws Error on anything else.
[[nodiscard]] Activation activation_of(const Attributes& attributes);
/// The activation that is the same as `op`; nothing where a product cannot take it over.
[[nodiscard]] std::optional<Activation> activation_for(Op op);
/// FLOPs for an element.
[[nodiscard]] double flops_of(Activation activation);

}  // namespace headroom
