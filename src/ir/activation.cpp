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

double flops_of(const Epilogue& epilogue) {
  const TensorType element{DType::kF32, Shape{}};
  double flops = 0;
  for (const Epilogue::Term& term : epilogue.terms())
    if (term.kind == Epilogue::Term::kOp) flops += definition_of(term.op).flops.count({}, {&element, 1}, {&element, 1});
  return flops;
}

double flops_of(Activation activation) { return flops_of(Epilogue(activation)); }

}  // namespace headroom
