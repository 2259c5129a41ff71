#pragma once

#include <limits>
#include <vector>

#include "differential/bound_rules.hpp"

// What the rules of several families are made of, and the rules, by family.

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
/// Kernels compute functions as finely as what is stored afterwards asks for (kernels/elementwise/activation_inl.hpp): for 16 bits
/// to 2^-12.
[[nodiscard]] double function_unit(const Site& site);
[[nodiscard]] double value_at(const OracleTensor& tensor, std::size_t i);
/// Beyond which a float may be infinite, and nothing is known of an integer.
[[nodiscard]] double largest_of(DType dtype);
[[nodiscard]] bool is_narrow(DType dtype);
/// Half the distance between 1 and the next number: what storing a result rounds by, relatively, and at least.
struct StorageUnit {
  double relative = 0;
  double least = 0;
};
[[nodiscard]] StorageUnit storage_unit(DType dtype);
[[nodiscard]] double round_to(DType dtype, double value);
/// An error that the range of results caps, unless it comes from an operand that may not be finite.
[[nodiscard]] double capped(double error, double most);

[[nodiscard]] Field magnitudes(const OracleTensor& tensor);
[[nodiscard]] std::vector<Field> operand_errors(const Site& site);
/// The op on other numbers than its operands': on bounds, or on magnitudes. Integer operands stay as they are.
[[nodiscard]] Field evaluate(const Site& site, Op op, const Attributes& attributes, std::vector<Field> fields);
/// Of what is already `errors`, and of so many roundings of results of the op on magnitudes.
[[nodiscard]] Errors with_roundings(const Site& site, double roundings, Errors errors);

// bound_products.cpp
[[nodiscard]] Errors product_errors(const Site& site);

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
