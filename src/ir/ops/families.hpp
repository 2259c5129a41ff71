#pragma once

#include <string>

#include "ir/interpreter.hpp"
#include "ir/op_definition.hpp"

// The tables of ops, a file a family, and what several of them need.

namespace headroom::ops {

[[nodiscard]] std::span<const OpDefinition> elementwise();
[[nodiscard]] std::span<const OpDefinition> matmuls();
[[nodiscard]] std::span<const OpDefinition> attention();
[[nodiscard]] std::span<const OpDefinition> values();
[[nodiscard]] std::span<const OpDefinition> norms();
[[nodiscard]] std::span<const OpDefinition> reductions();
[[nodiscard]] std::span<const OpDefinition> positions();
[[nodiscard]] std::span<const OpDefinition> movements();
[[nodiscard]] std::span<const OpDefinition> indexing();
[[nodiscard]] std::span<const OpDefinition> convolutions();
[[nodiscard]] std::span<const OpDefinition> sampling();
[[nodiscard]] std::span<const OpDefinition> transformers();
[[nodiscard]] std::span<const OpDefinition> fused();

/// Whether `small` may accompany `x`: the same dtype, or f32 beside a narrower float.
[[nodiscard]] bool fits_beside(DType small, DType x);
/// Whether cos and sin are f32 [seq, head_dim / 2] tables for that many positions.
[[nodiscard]] bool are_rope_tables(const TensorType& cos, const TensorType& sin, std::int64_t seq,
                                   std::int64_t head_dim);
/// What quantize makes of x[..., k]: elements of that dtype and a scale for each row.
[[nodiscard]] std::vector<TensorType> quantized_types(Op op, DType dtype, const TensorType& x);
/// The attribute "axis", which counts from the front and must exist in the first operand.
[[nodiscard]] int axis_of(const TypeQuery& query);

/// Whether rows can be numbered in it: i32 or i64.
[[nodiscard]] bool is_index(const TensorType& type);

/// `value` as the dtype holds it, integers saturating.
[[nodiscard]] double round_to(DType dtype, double value);
[[nodiscard]] std::size_t extent(const OracleTensor& x, int axis);
[[nodiscard]] double dot(const double* a, const double* b, std::size_t count);
[[nodiscard]] double mean_of(std::span<const double> values);

/// x, and behind it the op that the attribute "activation" names, if it names one.
[[nodiscard]] ValueId activated(Builder& builder, const Attributes& attributes, ValueId x);

/// The number of elements, as FLOPs are counted.
[[nodiscard]] inline double elements_of(const TensorType& type) { return static_cast<double>(type.shape.numel()); }

/// FLOPs of so many for each element of operand 0.
template <int kEach>
double for_each_input(const Attributes& /*attributes*/, Types in, Types /*out*/) {
  return kEach * static_cast<double>(in[0].shape.numel());
}

/// Whether the attribute "axis" names another axis than the first.
[[nodiscard]] bool is_along_inner_axis(const Attributes& attributes);
[[nodiscard]] Attributes next_axis(const Attributes& attributes, std::int64_t extent);

}  // namespace headroom::ops
