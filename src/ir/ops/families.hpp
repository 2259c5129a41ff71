#pragma once

#include <string>

#include "ir/interpreter.hpp"
#include "ir/op_definition.hpp"

// The tables of ops, one file per family, and functions that several of them share.

namespace headroom::ops {

[[nodiscard]] std::span<const OpDefinition> elementwise();
[[nodiscard]] std::span<const OpDefinition> matmuls();
[[nodiscard]] std::span<const OpDefinition> packed_weights();
[[nodiscard]] std::span<const OpDefinition> attention();
[[nodiscard]] std::span<const OpDefinition> losses();
[[nodiscard]] std::span<const OpDefinition> values();
[[nodiscard]] std::span<const OpDefinition> norms();
[[nodiscard]] std::span<const OpDefinition> reductions();
[[nodiscard]] std::span<const OpDefinition> positions();
[[nodiscard]] std::span<const OpDefinition> movements();
[[nodiscard]] std::span<const OpDefinition> indexing();
[[nodiscard]] std::span<const OpDefinition> collectives();
[[nodiscard]] std::span<const OpDefinition> convolutions();
[[nodiscard]] std::span<const OpDefinition> sampling();
[[nodiscard]] std::span<const OpDefinition> transformers();
[[nodiscard]] std::span<const OpDefinition> fused();

/// Whether per-channel vectors of x may have the dtype `vector`: that of x, or f32 for x of a float of fewer bits.
[[nodiscard]] bool is_vector_dtype(DType vector, DType x);
/// Whether cos and sin are f32 [seq, head_dim / 2] tables for that number of positions.
[[nodiscard]] bool are_rope_tables(const TensorType& cos, const TensorType& sin, std::int64_t seq,
                                   std::int64_t head_dim);
/// The result types of quantize for x[..., k]: elements of that dtype, and one scale per row.
[[nodiscard]] std::vector<TensorType> quantized_types(Op op, DType dtype, const TensorType& x);
/// The attribute "axis", counted from the first axis; it must exist in the first operand.
[[nodiscard]] int axis_of(const TypeQuery& query);

/// Whether its dtype can hold row indices: i32 or i64.
[[nodiscard]] bool is_index(const TensorType& type);

/// `value` rounded to the dtype; integers saturate.
[[nodiscard]] double round_to(DType dtype, double value);
/// Copies `size` steps of `axis` from step `from` of x to step `to` of out, for every outer index.
void copy_steps(const OracleTensor& x, std::int64_t from, OracleTensor& out, std::int64_t to, std::int64_t size,
                int axis);
[[nodiscard]] std::size_t extent(const OracleTensor& x, int axis);
[[nodiscard]] double dot(const double* a, const double* b, std::size_t count);
[[nodiscard]] double mean_of(std::span<const double> values);

/// The operands of the op itself; those of its epilogue follow.
template <class T>
[[nodiscard]] std::span<const T> own_operands(const Attributes& attributes, std::span<const T> in) {
  return in.first(in.size() - attributes.epilogue_operands());
}
/// Requires the operands of the epilogue of a node that makes `made` [..., n] to be of that type, or [n].
void require_row_epilogue(const TypeQuery& given, const TensorType& made);
/// The same of a node that makes images: of that type, layout included.
void require_image_epilogue(const TypeQuery& given, const TensorType& made);
/// The epilogue applied to `sum`. `operands` are the node's; those of the epilogue are cast to the dtype of the sum.
[[nodiscard]] ValueId ended(Builder& builder, const Attributes& attributes, ValueId sum,
                            std::span<const ValueId> operands);

/// The number of elements, as FLOPs are counted.
[[nodiscard]] inline double elements_of(const TensorType& type) { return static_cast<double>(type.shape.numel()); }

/// kEach FLOPs per element of operand 0.
template <int kEach>
double for_each_input(const Attributes& /*attributes*/, Types in, Types /*out*/) {
  return kEach * static_cast<double>(in[0].shape.numel());
}

/// Whether the attribute "axis" names an axis other than the first.
[[nodiscard]] bool is_along_inner_axis(const Attributes& attributes);
[[nodiscard]] Attributes next_axis(const Attributes& attributes, std::int64_t extent);

}  // namespace headroom::ops
