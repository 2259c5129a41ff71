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

double flops_of(Activation activation) {
  if (activation == Activation::kNone) return 0;
  const TensorType element{DType::kF32, Shape{}};
  return definition_of(op_of(activation)).flops.count({}, {&element, 1}, {&element, 1});
}

}  // namespace headroom
