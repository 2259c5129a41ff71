#pragma once

#include <cstdint>

// The enums of ops alone, which device code includes too.

namespace headroom {

/// Operations, generated from ops.def.
enum class Op : std::uint8_t {
#define HR_OP(enumerator, ...) enumerator,
#include "ir/ops.def"
#undef HR_OP
};

/// Elementwise activation applied after a matmul or convolution: the unary ops that epilogues support.
enum class Activation : std::uint8_t { kNone, kGeluTanh, kGeluErf, kSilu, kRelu };

/// How resize2d takes its pixels.
enum class ResizeMode : std::uint8_t { kNearest, kBilinear };

/// What `random` draws: mean 0 and variance 1, or from [0, 1).
enum class Distribution : std::uint8_t { kNormal, kUniform };

/// The unary op that equals an activation other than kNone.
constexpr Op op_of(Activation activation) {
  if (activation == Activation::kGeluTanh) return Op::kGeluTanh;
  if (activation == Activation::kGeluErf) return Op::kGeluErf;
  return activation == Activation::kSilu ? Op::kSilu : Op::kRelu;
}

}  // namespace headroom
