#include <algorithm>
#include <array>
#include <numeric>

#include "base/error.hpp"
#include "ir/infer_rules.hpp"

// Result types of products, norms, positional ops and the fused ops made of them.

namespace headroom::infer_rules {
namespace {

/// Whether cos and sin are f32 [seq, head_dim / 2] tables for that many positions.
bool are_rope_tables(const TensorType& cos, const TensorType& sin, std::int64_t seq, std::int64_t head_dim) {
  const TensorType wanted{DType::kF32, Shape{seq, head_dim / 2}};
  return head_dim % 2 == 0 && cos == wanted && sin == wanted;
}

/// The activations that the epilogue of a product may apply.
void check_activation(Op op, const Attributes& attributes) {
  constexpr std::array<std::string_view, 4> kActivations = {"none", "gelu_tanh", "gelu", "silu"};
  const std::string& activation = attributes.get_text("activation");
  if (std::ranges::find(kActivations, activation) == kActivations.end()) {
    fail("{}: activation must be \"none\", \"gelu_tanh\", \"gelu\" or \"silu\", but was given \"{}\"", name_of(op),
         activation);
  }
}

bool is_quantized(DType dtype) { return dtype == DType::kI8 || dtype == DType::kF8E4M3; }

/// [...] of x[..., k]: one element a row.
Shape rows_of(const TensorType& x) { return Shape(x.shape.dims().first(x.shape.dims().size() - 1)); }

/// Whether `vector` is [batch, 1, d] beside x[batch, seq, d].
bool is_per_sample(const TensorType& vector, const TensorType& x) {
  return vector.shape == Shape{x.shape[0], 1, x.shape[2]} && fits_beside(vector.dtype, x.dtype);
}

void require_modulated_norm(Op op, Types in) {
  const TensorType& x = in[0];
  require(is_float(x.dtype) && x.shape.rank() == 3 && is_per_sample(in[1], x) && is_per_sample(in[2], x) &&
              in[1].dtype == in[2].dtype,
          op, "x[b, s, d], scale[b, 1, d] and shift[b, 1, d] (the last two in the dtype of x or f32)", in);
}

/// Of x[..., k] as `dtype` and a scale for each row.
std::vector<TensorType> quantized_types(Op op, DType dtype, const TensorType& x) {
  if (!is_quantized(dtype)) fail("{}: dtype must be i8 or f8e4m3, but was given {}", name_of(op), dtype);
  return {TensorType{dtype, x.shape}, TensorType{DType::kF32, rows_of(x)}};
}

/// The sum of residual, gate and x, for `op`, which may have more operands.
TensorType gated_sum(Op op, Types in) {
  const TensorType& residual = in[0];
  require(is_float(residual.dtype) && residual.shape.rank() == 3 && is_per_sample(in[1], residual) &&
              in[2].shape == residual.shape && in[2].dtype == residual.dtype,
          op, "residual[b, s, d], gate[b, 1, d] (in the dtype of x or f32) and x[b, s, d]", in);
  return residual;
}

std::vector<TensorType> gated_norm(Op op, Types in) {
  const TensorType sum = gated_sum(op, in);
  require_modulated_norm(op, std::vector<TensorType>{sum, in[3], in[4]});
  return {sum, sum};
}

}  // namespace

TensorType linear(const Attributes& attributes, Types in) {
  check_activation(Op::kLinear, attributes);
  const TensorType& x = in[0];
  const TensorType& weight = in[1];
  require(is_float(x.dtype) && weight.dtype == x.dtype, Op::kLinear, "x and weight of one floating-point dtype", in);
  require(x.shape.rank() >= 1 && weight.shape.rank() == 2 && weight.shape[1] == x.shape[-1], Op::kLinear,
          "x[..., k] and weight[n, k]", in);
  if (in.size() == 3) {
    require(in[2].shape == Shape{weight.shape[0]}, Op::kLinear, "x[..., k], weight[n, k] and bias[n]", in);
    require(fits_beside(in[2].dtype, x.dtype), Op::kLinear, "bias in the dtype of x or f32", in);
  }
  Shape shape = x.shape;
  shape.set(-1, weight.shape[0]);
  return {x.dtype, shape};
}

std::vector<TensorType> quantize(const Attributes& attributes, Types in) {
  require(is_float(in[0].dtype) && in[0].shape.rank() >= 1, Op::kQuantize, "x[..., k] of a floating-point dtype", in);
  return quantized_types(Op::kQuantize, attributes.get_dtype("dtype"), in[0]);
}

TensorType scaled_linear(const Attributes& attributes, Types in) {
  check_activation(Op::kScaledLinear, attributes);
  const DType dtype = attributes.get_dtype("dtype");
  if (!is_float(dtype)) fail("scaled_linear: dtype must be a floating-point one, but was given {}", dtype);
  const TensorType& x = in[0];
  const TensorType& weight = in[2];
  require(is_quantized(x.dtype) && weight.dtype == x.dtype && x.shape.rank() >= 1 && weight.shape.rank() == 2 &&
              weight.shape[1] == x.shape[-1],
          Op::kScaledLinear,
          "xq[..., k], x_scale[...], wq[n, k] and w_scale[n], xq and wq both in i8 or both in f8e4m3", in);
  const Shape columns{weight.shape[0]};
  require(in[1] == TensorType{DType::kF32, rows_of(x)} && in[3] == TensorType{DType::kF32, columns}, Op::kScaledLinear,
          "xq[..., k], x_scale[...], wq[n, k] and w_scale[n], scales in f32", in);
  if (in.size() == 5) {
    require(in[4].shape == columns && fits_beside(in[4].dtype, dtype), Op::kScaledLinear,
            "bias[n] in the dtype of the result or f32", in);
  }
  Shape shape = x.shape;
  shape.set(-1, weight.shape[0]);
  return {dtype, shape};
}

TensorType matmul(const Attributes& attributes, Types in) {
  const std::int64_t transpose_b = attributes.get_int("transpose_b");
  if (transpose_b != 0 && transpose_b != 1) fail("matmul: transpose_b must be 0 or 1, but was given {}", transpose_b);
  const Shape& a = in[0].shape;
  const Shape& b = in[1].shape;
  const std::string_view form = transpose_b != 0
                                    ? "a[batch..., m, k] and b[batch..., n, k] of one floating-point dtype"
                                    : "a[batch..., m, k] and b[batch..., k, n] of one floating-point dtype";
  require(is_float(in[0].dtype) && in[0].dtype == in[1].dtype, Op::kMatmul, form, in);
  require(a.rank() >= 2 && a.rank() == b.rank(), Op::kMatmul, form, in);
  for (int axis = 0; axis < a.rank() - 2; ++axis) require(a[axis] == b[axis], Op::kMatmul, form, in);
  require(a[-1] == (transpose_b != 0 ? b[-1] : b[-2]), Op::kMatmul, form, in);
  Shape shape = a;
  shape.set(-1, transpose_b != 0 ? b[-2] : b[-1]);
  return {in[0].dtype, shape};
}

TensorType normalization(Op op, Types in) {
  require(is_float(in[0].dtype) && in[0].shape.rank() >= 1, op, "x[..., d] of a floating-point dtype", in);
  return in[0];
}

TensorType rms_norm(Types in) {
  require(is_float(in[0].dtype) && in[0].shape.rank() >= 1 && in[1].shape == Shape{in[0].shape[-1]}, Op::kRmsNorm,
          "x[..., d] of a floating-point dtype and weight[d]", in);
  require(fits_beside(in[1].dtype, in[0].dtype), Op::kRmsNorm, "weight in the dtype of x or f32", in);
  return in[0];
}

std::vector<TensorType> rope_table(const Attributes& attributes, Types in) {
  const std::vector<std::int64_t>& axes = attributes.get_ints("axes");
  const bool even = std::ranges::all_of(axes, [](std::int64_t extent) { return extent > 0 && extent % 2 == 0; });
  require(even && !axes.empty(), Op::kRopeTable, "axes that are positive and even", in);
  require(attributes.get_float("theta") > 0, Op::kRopeTable, "a positive theta", in);
  require(in[0].dtype != DType::kBool && in[0].shape.rank() == 2 &&
              in[0].shape[1] == static_cast<std::int64_t>(axes.size()),
          Op::kRopeTable, "ids[s, axes] with a column for each axis", in);
  const std::int64_t head_dim = std::accumulate(axes.begin(), axes.end(), std::int64_t{0});
  return {2, TensorType{DType::kF32, Shape{in[0].shape[0], head_dim / 2}}};
}

TensorType rope(Types in) {
  const TensorType& x = in[0];
  require(is_float(x.dtype) && x.shape.rank() >= 2 && are_rope_tables(in[1], in[2], x.shape[-2], x.shape[-1]),
          Op::kRope, "x[..., s, d] of a floating-point dtype with f32 cos[s, d/2] and sin[s, d/2]", in);
  return x;
}

TensorType timestep_embedding(const Attributes& attributes, Types in) {
  const std::int64_t dim = attributes.get_int("dim");
  require(in[0].shape.rank() == 1 && in[0].dtype != DType::kBool, Op::kTimestepEmbedding, "t[b]", in);
  require(dim > 0 && dim % 2 == 0, Op::kTimestepEmbedding, "a positive even dim", in);
  require(attributes.get_float("max_period") > 0, Op::kTimestepEmbedding, "a positive max_period", in);
  return {DType::kF32, Shape{in[0].shape[0], dim}};
}

TensorType attention(Types in) {
  const Shape& q = in[0].shape;
  const Shape& k = in[1].shape;
  const Shape& v = in[2].shape;
  const bool fits = is_float(in[0].dtype) && in[1].dtype == in[0].dtype && in[2].dtype == in[0].dtype &&
                    q.rank() == 4 && k.rank() == 4 && v.rank() == 4 && k == Shape{q[0], q[1], k[2], q[3]} &&
                    v == Shape{q[0], q[1], k[2], v[3]};
  require(fits, Op::kAttention, "q[b, h, s, d], k[b, h, t, d] and v[b, h, t, e] of one floating-point dtype", in);
  return {in[0].dtype, Shape{q[0], q[1], q[2], v[3]}};
}

TensorType norm_modulate(Types in) {
  require_modulated_norm(Op::kNormModulate, in);
  return in[0];
}

std::vector<TensorType> norm_modulate_quantize(const Attributes& attributes, Types in) {
  require_modulated_norm(Op::kNormModulateQuantize, in);
  return quantized_types(Op::kNormModulateQuantize, attributes.get_dtype("dtype"), in[0]);
}

TensorType gate_residual(Types in) { return gated_sum(Op::kGateResidual, in); }

std::vector<TensorType> gate_residual_norm(Types in) { return gated_norm(Op::kGateResidualNorm, in); }

std::vector<TensorType> gate_residual_norm_quantize(const Attributes& attributes, Types in) {
  const std::vector<TensorType> normed = gated_norm(Op::kGateResidualNormQuantize, in);
  const std::vector<TensorType> quantized =
      quantized_types(Op::kGateResidualNormQuantize, attributes.get_dtype("dtype"), normed[1]);
  return {normed[0], quantized[0], quantized[1]};
}

TensorType qk_norm_rope(const Attributes& attributes, Types in) {
  const TensorType& x = in[0];
  const std::int64_t heads = attributes.get_int("heads");
  constexpr std::string_view kForm =
      "x[b, s, heads*d], weight[d] (in the dtype of x or f32), f32 cos[s, d/2] and sin[s, d/2]";
  require(is_float(x.dtype) && x.shape.rank() == 3 && heads > 0 && x.shape[2] % heads == 0, Op::kQkNormRope, kForm, in);
  const std::int64_t head_dim = x.shape[2] / heads;
  require(in[1].shape == Shape{head_dim} && fits_beside(in[1].dtype, x.dtype) &&
              are_rope_tables(in[2], in[3], x.shape[1], head_dim),
          Op::kQkNormRope, kForm, in);
  return {x.dtype, Shape{x.shape[0], heads, x.shape[1], head_dim}};
}

}  // namespace headroom::infer_rules
