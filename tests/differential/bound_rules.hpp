#pragma once

#include <span>
#include <vector>

#include "differential/bounds.hpp"

namespace headroom::differential {

/// Properties of the fused op that contains a plain node.
struct Within {
  DType makes = DType::kF32;   ///< functions are computed with the precision that this dtype needs
  bool multiplies_f8 = false;  ///< its matmuls have 8-bit float operands
  bool is_cublaslt = false;    ///< a matmul on a GPU, whose kernel computes the activation
};

/// A plain node that the oracle has evaluated: the input of its error bounds.
struct Site {
  Op op;
  const Attributes& attributes;
  const std::vector<const Bounded*>& operands;
  const std::vector<OracleTensor>& results;
  Covers covers;
  Within within;
};

/// The steepest slope that the bounds allow for any activation.
inline constexpr double kSteepestUnary = 1.13;

/// A bound for each element of each result.
[[nodiscard]] std::vector<std::vector<double>> bound_errors(const Site& site);

}  // namespace headroom::differential
