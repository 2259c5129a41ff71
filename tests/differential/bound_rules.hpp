#pragma once

#include <span>
#include <vector>

#include "differential/bounds.hpp"

namespace headroom::differential {

/// A plain node that the oracle has evaluated: what its error bounds are made of.
struct Site {
  Op op;
  const Attributes& attributes;
  const std::vector<const Bounded*>& operands;
  const std::vector<OracleTensor>& results;
  Covers covers;
  bool is_narrow;  ///< what it makes is rounded to 16 bits, here or by the fused op that it is a part of
};

/// For each result, a bound for each element.
[[nodiscard]] std::vector<std::vector<double>> bound_errors(const Site& site);

}  // namespace headroom::differential
