#pragma once

#include <limits>
#include <vector>

#include "differential/bound_rules.hpp"

// Building blocks shared by the rules of several op families, and the rules by family.

namespace headroom::differential {

using Field = std::vector<double>;  // one value per element
using Errors = std::vector<Field>;  // by result

inline constexpr double kInfinity = std::numeric_limits<double>::infinity();
inline constexpr double kDoubleUnit = 0x1p-50;  // of the oracle itself, with a margin for a few operations
inline constexpr double kSingleUnit = 0x1p-23;  // of sums in f32: two half units

/// The rounding unit of arithmetic, relative to the values that are summed.
[[nodiscard]] inline double arithmetic_unit(Covers covers) {
  return covers == Covers::kReals ? kDoubleUnit : kSingleUnit;
}
/// Kernels compute functions with the precision that the stored result needs
/// (kernels/elementwise/activation_inl.hpp): 2^-12 for 16 bits.
[[nodiscard]] double function_unit(const Site& site);
[[nodiscard]] double value_at(const OracleTensor& tensor, std::size_t i);
/// Above this, a float may be infinite, and the value of an integer is unknown.
[[nodiscard]] double largest_of(DType dtype);
[[nodiscard]] bool is_narrow(DType dtype);
/// The rounding error of a stored result: half the distance between 1 and the next number, relative, and an absolute
/// minimum.
struct StorageUnit {
  double relative = 0;
  double least = 0;
};
[[nodiscard]] StorageUnit storage_unit(DType dtype);
[[nodiscard]] double round_to(DType dtype, double value);
/// An error capped by the range of results, unless it comes from an operand that may not be finite.
[[nodiscard]] double capped(double error, double most);

[[nodiscard]] Field magnitudes(const OracleTensor& tensor);
[[nodiscard]] std::vector<Field> operand_errors(const Site& site);
/// Evaluates the op on other values than its operands': on bounds, or on magnitudes. Integer operands keep their
/// values.
[[nodiscard]] Field evaluate(const Site& site, Op op, const Attributes& attributes, std::vector<Field> fields);
/// Adds to `errors` this many roundings of the op's results on magnitudes.
[[nodiscard]] Errors with_roundings(const Site& site, double roundings, Errors errors);

// bound_contractions.cpp
[[nodiscard]] Errors contraction_errors(const Site& site);

// bound_casts.cpp
[[nodiscard]] Errors cast_errors(const Site& site);
[[nodiscard]] Errors quantize_errors(const Site& site);

// bound_positions.cpp
[[nodiscard]] Errors rope_table_errors(const Site& site);
[[nodiscard]] Errors timestep_embedding_errors(const Site& site);
[[nodiscard]] Errors rope_errors(const Site& site);

// bound_movements.cpp
[[nodiscard]] Errors moved_errors(const Site& site);
[[nodiscard]] Errors gathered_errors(const Site& site);
[[nodiscard]] Errors scattered_errors(const Site& site);
[[nodiscard]] Errors padded_errors(const Site& site);
[[nodiscard]] Errors resized_errors(const Site& site);
[[nodiscard]] Errors no_errors(const Site& site);

// bound_norms.cpp
[[nodiscard]] Errors softmax_errors(const Site& site);
[[nodiscard]] Errors layer_norm_errors(const Site& site);
[[nodiscard]] Errors rms_norm_errors(const Site& site);
[[nodiscard]] Errors group_norm_errors(const Site& site);

// bound_elementwise.cpp
[[nodiscard]] Errors sum_errors(const Site& site);
[[nodiscard]] Errors scalar_errors(const Site& site);
[[nodiscard]] Errors unary_errors(const Site& site);
[[nodiscard]] Errors clamp_errors(const Site& site);
[[nodiscard]] Errors div_errors(const Site& site);
[[nodiscard]] Errors pow_errors(const Site& site);
[[nodiscard]] Errors mod_errors(const Site& site);
[[nodiscard]] Errors extreme_errors(const Site& site);
[[nodiscard]] Errors comparison_errors(const Site& site);
[[nodiscard]] Errors select_errors(const Site& site);

// bound_reductions.cpp
[[nodiscard]] Errors reduced_sum_errors(const Site& site);
[[nodiscard]] Errors reduced_extreme_errors(const Site& site);
[[nodiscard]] Errors argmax_errors(const Site& site);
[[nodiscard]] Errors topk_errors(const Site& site);

}  // namespace headroom::differential
