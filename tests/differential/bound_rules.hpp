#pragma once

#include <span>
#include <vector>

#include "differential/bounds.hpp"

namespace headroom::differential {

/// What is known of the fused op that a plain node is a part of.
struct Within {
  DType makes = DType::kF32;   ///< its functions are computed as finely as that asks for
  bool multiplies_f8 = false;  ///< its products are of 8-bit floats
  bool is_cublaslt = false;    ///< a product of a GPU, in whose kernel the activation is computed
};

/// A plain node that the oracle has evaluated: what its error bounds are made of.
struct Site {
  Op op;
  const Attributes& attributes;
  const std::vector<const Bounded*>& operands;
  const std::vector<OracleTensor>& results;
  Covers covers;
  Within within;
};

/// The slope that the bounds allow of every activation.
inline constexpr double kSteepestUnary = 1.13;

/// For each result, a bound for each element.
[[nodiscard]] std::vector<std::vector<double>> bound_errors(const Site& site);

}  // namespace headroom::differential
