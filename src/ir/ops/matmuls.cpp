#include <algorithm>
#include <array>
#include <cmath>

#include "base/error.hpp"
#include "ir/activation.hpp"
#include "ir/builder.hpp"
#include "ir/ops/families.hpp"

// Matmuls, and the quantization of their operands.

namespace headroom::ops {
namespace {

std::vector<TensorType> linear_types(const TypeQuery& given) {
  const TensorType& x = given.in[0];
  const TensorType& weight = given.in[1];
  given.require(is_float(x.dtype) && weight.dtype == x.dtype, "x and weight of one floating-point dtype");
  given.require(x.shape.rank() >= 1 && weight.shape.rank() == 2 && weight.shape[1] == x.shape[-1],
                "x[..., k] and weight[n, k]");
  const Types own = own_operands(given.attributes, given.in);
  if (own.size() == 3) {
    given.require(own[2].shape == Shape{weight.shape[0]}, "x[..., k], weight[n, k] and bias[n]");
    given.require(is_vector_dtype(own[2].dtype, x.dtype), "bias in the dtype of x or f32");
  }
  TensorType made{x.dtype, x.shape};
  made.shape.set(-1, weight.shape[0]);
  require_row_epilogue(given, made);
  return {made};
}

std::vector<TensorType> scaled_linear_types(const TypeQuery& given) {
  const DType dtype = given.attributes[attr::kDType];
  if (!is_float(dtype)) fail("scaled_linear: dtype must be a floating-point one, but was given {}", dtype);
  const TensorType& x = given.in[0];
  const TensorType& weight = given.in[2];
  given.require((x.dtype == DType::kI8 || x.dtype == DType::kF8E4M3) && weight.dtype == x.dtype &&
                    x.shape.rank() >= 1 && weight.shape.rank() == 2 && weight.shape[1] == x.shape[-1],
                "xq[..., k], x_scale[...], wq[n, k] and w_scale[n], xq and wq both in i8 or both in f8e4m3");
  const Shape columns{weight.shape[0]};
  given.require(given.in[1] == TensorType{DType::kF32, Shape(x.shape.dims().first(x.shape.dims().size() - 1))} &&
                    given.in[3] == TensorType{DType::kF32, columns},
                "xq[..., k], x_scale[...], wq[n, k] and w_scale[n], scales in f32");
  if (const Types own = own_operands(given.attributes, given.in); own.size() > 4) {
    given.require(own[4].shape == columns && is_vector_dtype(own[4].dtype, dtype),
                  "bias[n] in the dtype of the result or f32");
  }
  TensorType made{dtype, x.shape};
  made.shape.set(-1, weight.shape[0]);
  require_row_epilogue(given, made);
  return {made};
}

std::vector<TensorType> matmul_types(const TypeQuery& given) {
  const bool transpose_b = given.attributes[attr::kTransposeB];
  const Shape& a = given.in[0].shape;
  const Shape& b = given.in[1].shape;
  const std::string_view form = transpose_b ? "a[batch..., m, k] and b[batch..., n, k] of one floating-point dtype"
                                            : "a[batch..., m, k] and b[batch..., k, n] of one floating-point dtype";
  given.require(is_float(given.in[0].dtype) && given.in[0].dtype == given.in[1].dtype, form);
  given.require(a.rank() >= 2 && a.rank() == b.rank(), form);
  for (int axis = 0; axis < a.rank() - 2; ++axis) given.require(a[axis] == b[axis], form);
  given.require(a[-1] == (transpose_b ? b[-1] : b[-2]), form);
  TensorType made{given.in[0].dtype, a};
  made.shape.set(-1, transpose_b ? b[-2] : b[-1]);
  require_row_epilogue(given, made);
  return {made};
}

std::vector<TensorType> quantize_types(const TypeQuery& given) {
  given.require(is_float(given.in[0].dtype) && given.in[0].shape.rank() >= 1, "x[..., k] of a floating-point dtype");
  return quantized_types(Op::kQuantize, given.attributes[attr::kDType], given.in[0]);
}

/// out[m, n] = a[m, k] b[n, k]^T, both read along k.
void multiply(const double* a, const double* b, double* out, std::size_t m, std::size_t n, std::size_t k) {
  for (std::size_t i = 0; i < m; ++i) {
    for (std::size_t j = 0; j < n; ++j) out[i * n + j] = dot(a + i * k, b + j * k, k);
  }
}

void linear(const Attributes& /*attributes*/, Operands in, std::span<OracleTensor> out) {
  const std::size_t k = extent(*in[1], 1);
  const std::size_t n = extent(*in[1], 0);
  const std::size_t m = in[0]->reals.size() / k;
  multiply(in[0]->reals.data(), in[1]->reals.data(), out[0].reals.data(), m, n, k);
  if (in.size() < 3) return;
  for (std::size_t i = 0; i < m * n; ++i) out[0].reals[i] += in[2]->reals[i % n];
}

void matmul(const Attributes& attributes, Operands in, std::span<OracleTensor> out) {
  const bool transposed = attributes[attr::kTransposeB];
  const std::size_t m = extent(out[0], -2);
  const std::size_t n = extent(out[0], -1);
  const std::size_t k = extent(*in[0], -1);
  const std::size_t batch = out[0].reals.size() / (m * n);
  std::vector<double> b(n * k);  // [n, k]
  for (std::size_t i = 0; i < batch; ++i) {
    const double* source = in[1]->reals.data() + i * n * k;
    for (std::size_t j = 0; j < n * k; ++j) b[j] = transposed ? source[j] : source[j % k * n + j / k];
    multiply(in[0]->reals.data() + i * m * k, b.data(), out[0].reals.data() + i * m * n, m, n, k);
  }
}

void quantize(const Attributes& /*attributes*/, Operands in, std::span<OracleTensor> out) {
  const OracleTensor& x = *in[0];
  const DType dtype = out[0].type.dtype;
  const double largest = dtype == DType::kI8 ? 127 : 448;
  const std::size_t width = extent(x, -1);
  for (std::size_t row = 0; row < out[1].reals.size(); ++row) {
    const std::span<const double> values = std::span(x.reals).subspan(row * width, width);
    double peak = 0;
    for (const double value : values) peak = std::fabs(value) <= peak || std::isnan(peak) ? peak : std::fabs(value);
    const bool is_zeros = peak < 0x1p-100;
    const double inverse = is_zeros || !std::isfinite(peak) ? 0 : round_to(DType::kF32, largest / peak);
    out[1].reals[row] = is_zeros ? 1 : round_to(DType::kF32, peak / largest);
    for (std::size_t i = row * width; i < (row + 1) * width; ++i) {
      const double scaled = std::isfinite(peak) ? round_to(DType::kF32, x.reals[i] * inverse) : 0;
      if (dtype == DType::kI8)
        out[0].integers[i] = static_cast<std::int64_t>(round_to(dtype, scaled));
      else
        out[0].reals[i] = round_to(dtype, scaled);
    }
  }
}

/// The same op without its epilogue, followed by that.
template <Op kOp>
std::vector<ValueId> expand_matmul(Builder& builder, const Attributes& attributes, std::span<const ValueId> in) {
  const std::span<const ValueId> own = own_operands(attributes, in);
  const Attributes plain = attributes.with(attr::kEpilogue, Epilogue());
  const ValueId y = builder.emit(kOp, {own.begin(), own.end()}, {plain.all().begin(), plain.all().end()})[0];
  return {ended(builder, attributes, y, in)};
}

std::vector<ValueId> expand_scaled_linear(Builder& builder, const Attributes& attributes, std::span<const ValueId> in) {
  const ValueId xq = builder.cast(in[0], DType::kF32);  // [..., k]
  const ValueId wq = builder.cast(in[2], DType::kF32);  // [n, k]
  std::vector<std::int64_t> rows(builder.shape(in[1]).dims().begin(), builder.shape(in[1]).dims().end());
  rows.push_back(1);
  ValueId y = builder.mul(builder.linear(xq, wq), builder.reshape(in[1], std::move(rows)));  // [..., n]
  y = builder.mul(y, in[3]);
  if (own_operands(attributes, in).size() > 4) y = builder.add(y, builder.cast(in[4], DType::kF32));
  return {builder.cast(ended(builder, attributes, y, in), attributes[attr::kDType])};
}

double linear_flops(const Attributes& attributes, Types in, Types out) {
  const auto after = static_cast<double>(own_operands(attributes, in).size() - 2);  // two scales, a bias
  const double each = 2 * static_cast<double>(in[0].shape[-1]) + after;
  return elements_of(out[0]) * (each + flops_of(attributes[attr::kEpilogue]));
}

double matmul_flops(const Attributes& attributes, Types in, Types out) {
  return elements_of(out[0]) * (2 * static_cast<double>(in[0].shape[-1]) + flops_of(attributes[attr::kEpilogue]));
}

constexpr std::array kMatmuls = {
    OpDefinition{.op = Op::kLinear,
                 .kind = OpKind::kContraction,
                 .infer = linear_types,
                 .evaluate = linear,
                 .expand = expand_matmul<Op::kLinear>,
                 .flops = linear_flops,
                 .samples = Samples::kBatched,
                 .inner_axes = 1},
    OpDefinition{.op = Op::kScaledLinear,
                 .kind = OpKind::kContraction,
                 .infer = scaled_linear_types,
                 .expand = expand_scaled_linear,
                 .flops = linear_flops,
                 .samples = Samples::kBatched,
                 .inner_axes = 1,
                 .stays_f32 = true},
    OpDefinition{.op = Op::kMatmul,
                 .kind = OpKind::kContraction,
                 .infer = matmul_types,
                 .evaluate = matmul,
                 .expand = expand_matmul<Op::kMatmul>,
                 .flops = matmul_flops,
                 .samples = Samples::kEvery,
                 .inner_axes = 2},
    OpDefinition{.op = Op::kQuantize,
                 .infer = quantize_types,
                 .evaluate = quantize,
                 .flops = for_each_input<3>,
                 .samples = Samples::kBatched,
                 .inner_axes = 1,
                 .goes_along_rows = true,
                 .stays_f32 = true},
};

}  // namespace

std::span<const OpDefinition> matmuls() { return kMatmuls; }

}  // namespace headroom::ops
