#pragma once

#include <limits>
#include <vector>

#include "differential/bound_rules.hpp"

// What the rules of several families are made of, and the rules that have a file of their own.

namespace headroom::differential {

using Field = std::vector<double>;  // one number an element
using Errors = std::vector<Field>;  // by result

inline constexpr double kInfinity = std::numeric_limits<double>::infinity();
inline constexpr double kDoubleUnit = 0x1p-50;  // of the oracle itself, with room for a few operations
inline constexpr double kSingleUnit = 0x1p-23;  // of sums in f32: two half units

/// What arithmetic rounds by, relative to the numbers that it adds up.
[[nodiscard]] inline double arithmetic_unit(Covers covers) {
  return covers == Covers::kReals ? kDoubleUnit : kSingleUnit;
}
/// Kernels compute functions as finely as what is stored afterwards asks for (kernels/activation_inl.hpp): for 16 bits
/// to 2^-12.
[[nodiscard]] double function_unit(const Site& site);
[[nodiscard]] double value_at(const OracleTensor& tensor, std::size_t i);
/// Beyond which a result may be infinite.
[[nodiscard]] double largest_of(DType dtype);

// bound_norms.cpp
[[nodiscard]] Errors layer_norm_errors(const Site& site);
[[nodiscard]] Errors rms_norm_errors(const Site& site);
[[nodiscard]] Errors group_norm_errors(const Site& site);

// bound_elementwise.cpp
[[nodiscard]] Errors function_errors(const Site& site);
[[nodiscard]] Errors clamp_errors(const Site& site);
[[nodiscard]] Errors div_errors(const Site& site);
[[nodiscard]] Errors pow_errors(const Site& site);
[[nodiscard]] Errors mod_errors(const Site& site);
[[nodiscard]] Errors extreme_errors(const Site& site);
[[nodiscard]] Errors comparison_errors(const Site& site);
[[nodiscard]] Errors select_errors(const Site& site);

// bound_reductions.cpp
[[nodiscard]] Errors reduced_extreme_errors(const Site& site);
[[nodiscard]] Errors argmax_errors(const Site& site);
[[nodiscard]] Errors topk_errors(const Site& site);

}  // namespace headroom::differential
