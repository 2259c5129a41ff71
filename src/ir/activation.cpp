#include "ir/activation.hpp"

#include <array>

#include "base/error.hpp"
#include "ir/op_definition.hpp"

namespace headroom {

std::optional<Activation> activation_for(Op op) {
  for (const Activation activation :
       {Activation::kGeluTanh, Activation::kGeluErf, Activation::kSilu, Activation::kRelu})
    if (op_of(activation) == op) return activation;
  return std::nullopt;
}

Activation activation_of(const Attributes& attributes) {
  const std::string& name = attributes.get_text("activation");
  if (name == "none") return Activation::kNone;
  const std::optional<Op> op = parse_op(name);
  if (const std::optional<Activation> activation = op ? activation_for(*op) : std::nullopt) return *activation;
  fail("activation must be \"none\", \"gelu_tanh\", \"gelu_erf\", \"silu\" or \"relu\", but was given \"{}\"", name);
}

double flops_of(Activation activation) {
  if (activation == Activation::kNone) return 0;
  const TensorType element{DType::kF32, Shape{}};
  return definition_of(op_of(activation)).flops.count({}, {&element, 1}, {&element, 1});
}

}  // namespace headroom
