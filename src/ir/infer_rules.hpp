#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ir/infer.hpp"

// The rules of infer(), one function an op or family of ops; each throws Error where the operands do not fit.
// infer() has checked the number of inputs before it calls one.

namespace headroom::infer_rules {

using Types = std::span<const TensorType>;

/// "f32[2, 3]"
[[nodiscard]] std::string text_of(const TensorType& type);
/// Throws Error unless `holds`: "linear: expected <expectation>, but was given f32[2, 3], f32[4]".
void require(bool holds, Op op, std::string_view expectation, Types inputs);
/// Whether `small` may accompany `x`: the same dtype, or f32 beside a narrower float.
[[nodiscard]] bool fits_beside(DType small, DType x);

TensorType binary(Op op, Types in);
TensorType add_scalar_or_mul_scalar(Op op, const Attributes& attributes, Types in);
TensorType activation(Op op, Types in);
TensorType gelu(const Attributes& attributes, Types in);
TensorType cast(const Attributes& attributes, Types in);

TensorType linear(const Attributes& attributes, Types in);
std::vector<TensorType> quantize(const Attributes& attributes, Types in);
TensorType scaled_linear(const Attributes& attributes, Types in);
TensorType matmul(const Attributes& attributes, Types in);
TensorType normalization(Op op, Types in);
TensorType rms_norm(Types in);
std::vector<TensorType> rope_table(const Attributes& attributes, Types in);
TensorType rope(Types in);
TensorType timestep_embedding(const Attributes& attributes, Types in);
TensorType attention(Types in);
TensorType norm_modulate(Types in);
std::vector<TensorType> gate_residual_norm(Types in);
std::vector<TensorType> gate_residual_norm_quantize(const Attributes& attributes, Types in);
std::vector<TensorType> norm_modulate_quantize(const Attributes& attributes, Types in);
TensorType gate_residual(Types in);
TensorType qk_norm_rope(const Attributes& attributes, Types in);

TensorType reshape(const Attributes& attributes, Types in);
TensorType transpose(const Attributes& attributes, Types in);
TensorType concat(const Attributes& attributes, Types in);
TensorType slice(const Attributes& attributes, Types in);
TensorType row(Types in);
TensorType conv2d(const Attributes& attributes, Types in);
TensorType max_pool2d(const Attributes& attributes, Types in);
TensorType mean(const Attributes& attributes, Types in);

}  // namespace headroom::infer_rules
