#include "ir/infer.hpp"

#include <algorithm>
#include <cmath>

#include "base/error.hpp"
#include "ir/infer_rules.hpp"

namespace headroom {
namespace infer_rules {

std::string text_of(const TensorType& type) { return fmt::format("{}{}", type.dtype, type.shape); }

void require(bool holds, Op op, std::string_view expectation, Types inputs) {
  if (holds) return;
  std::string given;
  for (const TensorType& input : inputs) given += (given.empty() ? "" : ", ") + text_of(input);
  fail("{}: expected {}, but was given {}", name_of(op), expectation, given);
}

bool fits_beside(DType small, DType x) { return small == x || (small == DType::kF32 && is_float(x)); }

TensorType binary(Op op, Types in) {
  require(in[0].dtype == in[1].dtype, op, "two operands of one dtype", in);
  require(in[0].dtype != DType::kBool, op, "numbers", in);
  TensorType result{in[0].dtype, broadcast_shapes(in[0].shape, in[1].shape)};
  for (const TensorType& operand : in) {
    if (operand.shape == result.shape && operand.layout != Layout::kRowMajor) result.layout = operand.layout;
  }
  return result;
}

TensorType add_scalar_or_mul_scalar(Op op, const Attributes& attributes, Types in) {
  const double value = attributes.get_float("value");
  const bool integral = std::trunc(value) == value && std::fabs(value) < 0x1p53;
  require(in[0].dtype != DType::kBool, op, "numbers", in);
  require(is_float(in[0].dtype) || integral, op, "an integral value with integers", in);
  return in[0];
}

TensorType activation(Op op, Types in) {
  require(is_float(in[0].dtype), op, "a floating-point dtype", in);
  return in[0];
}

TensorType gelu(const Attributes& attributes, Types in) {
  const std::string& approximate = attributes.get_text("approximate");
  if (approximate != "tanh" && approximate != "none") {
    fail("gelu: approximate must be \"tanh\" or \"none\", but was given \"{}\"", approximate);
  }
  return activation(Op::kGelu, in);
}

TensorType cast(const Attributes& attributes, Types in) {
  return TensorType{attributes.get_dtype("dtype"), in[0].shape, in[0].layout};
}

}  // namespace infer_rules

Shape broadcast_shapes(const Shape& a, const Shape& b) {
  const int rank = std::max(a.rank(), b.rank());
  Shape result = a.rank() >= b.rank() ? a : b;
  for (int axis = 1; axis <= std::min(a.rank(), b.rank()); ++axis) {
    const std::int64_t left = a[-axis];
    const std::int64_t right = b[-axis];
    if (left != right && left != 1 && right != 1) fail("shapes {} and {} do not broadcast", a, b);
    result.set(rank - axis, left == 1 ? right : left);
  }
  return result;
}

std::vector<TensorType> infer(Op op, const Attributes& attributes, std::span<const TensorType> in) {
  const OpSchema& schema = schema_of(op);
  const auto given = static_cast<int>(in.size());
  if (given < schema.min_inputs || given > schema.max_inputs) {
    fail("{}: expected {} to {} operands, but was given {}", schema.name, schema.min_inputs, schema.max_inputs, given);
  }
  switch (op) {
    case Op::kAdd:
    case Op::kSub:
    case Op::kMul:
      return {infer_rules::binary(op, in)};
    case Op::kAddScalar:
    case Op::kMulScalar:
      return {infer_rules::add_scalar_or_mul_scalar(op, attributes, in)};
    case Op::kRelu:
    case Op::kSilu:
      return {infer_rules::activation(op, in)};
    case Op::kGelu:
      return {infer_rules::gelu(attributes, in)};
    case Op::kCast:
      return {infer_rules::cast(attributes, in)};
    case Op::kLinear:
      return {infer_rules::linear(attributes, in)};
    case Op::kQuantize:
      return infer_rules::quantize(attributes, in);
    case Op::kScaledLinear:
      return {infer_rules::scaled_linear(attributes, in)};
    case Op::kMatmul:
      return {infer_rules::matmul(attributes, in)};
    case Op::kSoftmax:
    case Op::kLayerNorm:
      return {infer_rules::normalization(op, in)};
    case Op::kRmsNorm:
      return {infer_rules::rms_norm(in)};
    case Op::kRopeTable:
      return infer_rules::rope_table(attributes, in);
    case Op::kRope:
      return {infer_rules::rope(in)};
    case Op::kTimestepEmbedding:
      return {infer_rules::timestep_embedding(attributes, in)};
    case Op::kReshape:
      return {infer_rules::reshape(attributes, in)};
    case Op::kTranspose:
      return {infer_rules::transpose(attributes, in)};
    case Op::kConcat:
      return {infer_rules::concat(attributes, in)};
    case Op::kSlice:
      return {infer_rules::slice(attributes, in)};
    case Op::kRow:
      return {infer_rules::row(in)};
    case Op::kConv2d:
      return {infer_rules::conv2d(attributes, in)};
    case Op::kMaxPool2d:
      return {infer_rules::max_pool2d(attributes, in)};
    case Op::kMean:
      return {infer_rules::mean(attributes, in)};
    case Op::kAttention:
      return {infer_rules::attention(in)};
    case Op::kNormModulate:
      return {infer_rules::norm_modulate(in)};
    case Op::kNormModulateQuantize:
      return infer_rules::norm_modulate_quantize(attributes, in);
    case Op::kGateResidualNorm:
      return infer_rules::gate_residual_norm(in);
    case Op::kGateResidualNormQuantize:
      return infer_rules::gate_residual_norm_quantize(attributes, in);
    case Op::kGateResidual:
      return {infer_rules::gate_residual(in)};
    case Op::kQkNormRope:
      return {infer_rules::qk_norm_rope(attributes, in)};
  }
  HR_CHECK(false);
}

}  // namespace headroom
