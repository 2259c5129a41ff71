#pragma once

#include <cstdint>

// The enums of ops alone, which device code reads too.

namespace headroom {

/// Operations, generated from ops.def.
enum class Op : std::uint8_t {
#define HR_OP(enumerator, ...) enumerator,
#include "ir/ops.def"
#undef HR_OP
};

/// What may follow a product, element by element: the unary ops that kernels of products have in them.
enum class Activation : std::uint8_t { kNone, kGeluTanh, kGeluErf, kSilu, kRelu };

/// The op that does the same, of an activation that is one.
constexpr Op op_of(Activation activation) {
  if (activation == Activation::kGeluTanh) return Op::kGeluTanh;
  if (activation == Activation::kGeluErf) return Op::kGeluErf;
  return activation == Activation::kSilu ? Op::kSilu : Op::kRelu;
}

}  // namespace headroom
