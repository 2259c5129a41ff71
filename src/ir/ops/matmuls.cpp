#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "base/error.hpp"
#include "ir/activation.hpp"
#include "ir/builder.hpp"
#include "ir/ops/families.hpp"
#include "ir/ops/gradient_parts.hpp"
#include "ir/test_cases/op_cases.hpp"

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
  const bool is_f8 = x.dtype == DType::kF8E4M3 && (weight.dtype == DType::kF8E4M3 || weight.dtype == DType::kF8E5M2);
  given.require((is_f8 || (x.dtype == DType::kI8 && weight.dtype == DType::kI8)) && x.shape.rank() >= 1 &&
                    weight.shape.rank() == 2 && weight.shape[1] == x.shape[-1],
                "xq[..., k], x_scale[...], wq[n, k] and w_scale[n], xq and wq both in i8, or xq in f8e4m3 and wq in "
                "f8e4m3 or f8e5m2");
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
  const bool transpose_a = given.attributes[attr::kTransposeA], transpose_b = given.attributes[attr::kTransposeB];
  const Shape& a = given.in[0].shape;
  const Shape& b = given.in[1].shape;
  const std::string form = fmt::format("a[batch..., {}] and b[batch..., {}] of one floating-point dtype",
                                       transpose_a ? "k, m" : "m, k", transpose_b ? "n, k" : "k, n");
  given.require(is_float(given.in[0].dtype) && given.in[0].dtype == given.in[1].dtype, form);
  given.require(a.rank() >= 2 && a.rank() == b.rank(), form);
  for (int axis = 0; axis < a.rank() - 2; ++axis) given.require(a[axis] == b[axis], form);
  given.require(a[transpose_a ? -2 : -1] == b[transpose_b ? -1 : -2], form);
  TensorType made{given.in[0].dtype, a};
  made.shape.set(-2, a[transpose_a ? -1 : -2]);
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
  const bool transpose_a = attributes[attr::kTransposeA], transpose_b = attributes[attr::kTransposeB];
  const std::size_t m = extent(out[0], -2);
  const std::size_t n = extent(out[0], -1);
  const std::size_t k = extent(*in[0], transpose_a ? -2 : -1);
  const std::size_t batch = out[0].reals.size() / (m * n);
  std::vector<double> a(m * k), b(n * k);  // [m, k], [n, k]
  const auto read = [&](const double* source, bool is_along_k, std::size_t rows, std::vector<double>& to) {
    for (std::size_t j = 0; j < rows * k; ++j) to[j] = is_along_k ? source[j] : source[j % k * rows + j / k];
  };
  for (std::size_t i = 0; i < batch; ++i) {
    read(in[0]->reals.data() + i * m * k, !transpose_a, m, a);
    read(in[1]->reals.data() + i * n * k, transpose_b, n, b);
    multiply(a.data(), b.data(), out[0].reals.data() + i * m * n, m, n, k);
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

/// a[m, k] b[k, n], each transposed if said; both may have leading axes. As exact as the product of `node`.
ValueId product(Builder& builder, const Derivation& node, ValueId a, bool transpose_a, ValueId b, bool transpose_b) {
  return builder.emit(Op::kMatmul, {a, b},
                      {{attr::kTransposeA, transpose_a},
                       {attr::kTransposeB, transpose_b},
                       {attr::kTf32, node.attributes[attr::kTf32]}})[0];
}

std::vector<ValueId> derive_linear(Builder& builder, const Derivation& node) {
  const ValueId made = as_rows(builder, node.gradient());  // [m, n]
  std::vector<ValueId> gradients(node.in.size(), kNoValue);
  if (node.wanted[0]) {
    const Shape shape = builder.shape(node.in[0]);
    gradients[0] = with_shape(builder, product(builder, node, made, false, node.in[1], false), shape);  // [..., k]
  }
  if (node.wanted[1]) gradients[1] = product(builder, node, made, true, as_rows(builder, node.in[0]), false);  // [n, k]
  if (node.in.size() > 2 && node.wanted[2]) gradients[2] = summed(builder, made, {0}, builder.dtype(node.in[2]));
  return gradients;
}

std::vector<ValueId> derive_matmul(Builder& builder, const Derivation& node) {
  const ValueId made = node.gradient(), a = node.in[0], b = node.in[1];  // [m, n], [m, k], [k, n]
  const bool transpose_a = node.attributes[attr::kTransposeA];           // a is [k, m]
  const bool transpose_b = node.attributes[attr::kTransposeB];           // b is [n, k]
  std::vector<ValueId> gradients(2, kNoValue);
  if (node.wanted[0])
    gradients[0] = transpose_a ? product(builder, node, b, transpose_b, made, true)
                               : product(builder, node, made, false, b, !transpose_b);
  if (node.wanted[1])
    gradients[1] = transpose_b ? product(builder, node, made, true, a, transpose_a)
                               : product(builder, node, a, !transpose_a, made, false);
  return gradients;
}

double linear_flops(const Attributes& attributes, Types in, Types out) {
  const auto after = static_cast<double>(own_operands(attributes, in).size() - 2);  // two scales, a bias
  const double each = 2 * static_cast<double>(in[0].shape[-1]) + after;
  return elements_of(out[0]) * (each + flops_of(attributes[attr::kEpilogue]));
}

double matmul_flops(const Attributes& attributes, Types in, Types out) {
  const std::int64_t k = in[0].shape[attributes[attr::kTransposeA] ? -2 : -1];
  return elements_of(out[0]) * (2 * static_cast<double>(k) + flops_of(attributes[attr::kEpilogue]));
}

constexpr std::array kActivations = {Activation::kNone, Activation::kRelu, Activation::kSilu, Activation::kGeluTanh,
                                     Activation::kGeluErf};

/// "5x31 to 7, bias, relu"
std::string name_of_rows(std::int64_t rows, std::int64_t k, std::int64_t n, bool has_bias, std::string_view epilogue) {
  return fmt::format("{}x{} to {}{}{}{}", rows, k, n, has_bias ? ", bias" : "",
                     epilogue.empty() || epilogue == "none" ? "" : ", ", epilogue == "none" ? "" : epilogue);
}

/// Adds the case for each activation, with and without bias, and for a residual. `inputs` are all but the bias.
void add_epilogues(CaseList& list, const std::string& prefix, const std::vector<TensorType>& inputs,
                   const std::vector<bool>& is_weight, const NamedAttributes& attributes, const TensorType& made) {
  const std::int64_t rows = inputs[0].shape[0], k = inputs[0].shape[1], n = made.shape[1];
  const auto add = [&](bool has_bias, const Epilogue& epilogue, std::string_view name) {
    std::vector<TensorType> operands = inputs;
    std::vector<bool> weights = is_weight;
    if (has_bias) operands.push_back(list.vector({n})), weights.push_back(true);
    operands.insert(operands.end(), epilogue.operand_count(), made);
    NamedAttributes all = attributes;
    all.emplace_back(attr::kEpilogue, epilogue);
    OpCase& added = list.add(prefix + name_of_rows(rows, k, n, has_bias, name), std::move(operands), std::move(all),
                             std::move(weights));
    // Libraries compute activations to about 5e-6, or read sums that were rounded once already.
    if (epilogue.is_empty()) return;
    if (made.dtype == DType::kF32) added.tolerance.relative_l2 = 1e-5;
    if (made.dtype == DType::kBF16) added.tolerance = {.relative_l2 = 8e-3, .max_ulps_of_peak = 3};
    if (made.dtype == DType::kF16) added.tolerance = {.relative_l2 = 3e-3, .max_ulps_of_peak = 4};
  };
  for (const bool has_bias : {false, true}) {
    for (const Activation activation : kActivations) add(has_bias, Epilogue(activation), name_of(activation));
    add(has_bias, Epilogue().then(Op::kAdd), "residual");
  }
}

void linear_cases(CaseList& list) {
  struct Sizes {
    std::int64_t rows, k, n;
  };
  for (const Sizes& size : {Sizes{1, 32, 48}, {5, 31, 7}, {33, 64, 32}, {96, 64, 64}})
    add_epilogues(list, "", {list.data({size.rows, size.k}), list.data({size.n, size.k})}, {false, true}, {},
                  list.data({size.rows, size.n}));
  OpCase& tf32 = list.add("2x5x24 to 16, tf32", {list.data({2, 5, 24}), list.data({16, 24})}, {{attr::kTf32, true}});
  if (list.types().data == DType::kF32) tf32.tolerance = {.relative_l2 = 1e-3, .max_ulps_of_peak = 1 << 14};
}

void matmul_cases(CaseList& list) {
  const TensorType a = list.data({2, 3, 9, 24});
  list.add("row-major b", {a, list.data({2, 3, 24, 16})});
  list.add("transposed b", {a, list.data({2, 3, 16, 24})}, {{attr::kTransposeB, true}});
  const TensorType turned = list.data({2, 3, 24, 9});
  list.add("transposed a", {turned, list.data({2, 3, 24, 16})}, {{attr::kTransposeA, true}});
  list.add("both transposed", {turned, list.data({2, 3, 16, 24})},
           {{attr::kTransposeA, true}, {attr::kTransposeB, true}});
}

void quantize_cases(CaseList& list) {
  for (const DType narrow : {DType::kI8, DType::kF8E4M3})
    for (const Shape& shape : {Shape{3, 17}, Shape{5, 64}, Shape{2, 3, 256}})
      list.add(fmt::format("{} to {}", shape, name_of(narrow)), {list.data(shape)}, {{attr::kDType, narrow}});
}

/// Quantized operands of a scaled_linear without bias.
std::vector<TensorType> scaled_operands(DType narrow, std::int64_t rows, std::int64_t k, std::int64_t n) {
  return {{narrow, {rows, k}}, {DType::kF32, {rows}}, {narrow, {n, k}}, {DType::kF32, {n}}};
}

void scaled_linear_cases(CaseList& list) {
  const DType made = list.types().data;
  for (const DType narrow : {DType::kI8, DType::kF8E4M3})
    for (const std::int64_t rows : {3, 48})
      add_epilogues(list, fmt::format("{} ", name_of(narrow)), scaled_operands(narrow, rows, 64, 32),
                    {false, false, true, true}, {{attr::kDType, made}}, list.data({rows, 32}));
  std::vector<TensorType> wide_weight = scaled_operands(DType::kF8E4M3, 48, 64, 32);
  wide_weight[2].dtype = DType::kF8E5M2;
  list.add("weight in f8e5m2", std::move(wide_weight), {{attr::kDType, made}}, {false, false, true, true});
  for (OpCase& one : list) {
    if (one.spec.inputs[0].dtype == DType::kI8) continue;
    // Tensor cores sum f8e4m3 in fewer bits than f32.
    one.tolerance = made == DType::kF32
                        ? Tolerance{.relative_l2 = 2e-3, .max_ulps_of_peak = 1e5}
                        : Tolerance{.relative_l2 = 8e-3, .max_ulps_of_peak = made == DType::kBF16 ? 3.0 : 24.0};
  }
}

// Tokens of a small model: 16 of text and 256 of an image, 20 samples in a batch, 3 heads of 64.
constexpr std::int64_t kTokensOfBatch = 20 * 272;

struct LargeMatmul {
  std::int64_t rows, k, n;
  Activation activation = Activation::kNone;
};
std::string suffix_of(const LargeMatmul& size) {
  return size.activation == Activation::kNone ? "" : fmt::format(" {}", name_of(size.activation));
}

void large_linear_cases(CaseList& list) {
  for (const DType dtype : {DType::kF32, DType::kBF16})
    for (const LargeMatmul& size : {LargeMatmul{kTokensOfBatch, 192, 192},
                                    {kTokensOfBatch, 192, 576},
                                    {kTokensOfBatch, 192, 768},
                                    {kTokensOfBatch, 192, 768, Activation::kGeluTanh},
                                    {kTokensOfBatch, 768, 192},
                                    {kTokensOfBatch, 960, 192},
                                    {1024, 3072, 3072}}) {
      OpCase& added =
          list.add(fmt::format("linear {} {}x{}x{}{}", name_of(dtype), size.rows, size.k, size.n, suffix_of(size)),
                   {{dtype, {size.rows, size.k}}, {dtype, {size.n, size.k}}, {dtype, {size.n}}},
                   {{attr::kEpilogue, Epilogue(size.activation)}}, {false, true, true});
      if (size.activation != Activation::kNone) added.apart = "unfused";
    }
}

void large_matmul_cases(CaseList& list) {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    const TensorType heads{dtype, {20, 3, 272, 64}}, scores{dtype, {20, 3, 272, 272}};
    list.add(fmt::format("matmul {} scores of 20x3 heads, 272 tokens of 64", name_of(dtype)), {heads, heads},
             {{attr::kTransposeB, true}});
    list.add(fmt::format("matmul {} context of 20x3 heads, 272 tokens of 64", name_of(dtype)), {scores, heads});
  }
}

void large_quantize_cases(CaseList& list) {
  for (const DType dtype : {DType::kF32, DType::kBF16})
    list.add(fmt::format("quantize {}", name_of(dtype)), {large_tokens(dtype)});
  const std::int64_t elements = large_tokens(DType::kBF16).shape.numel();
  for (const std::int64_t width : {kLargeWidth, 4 * kLargeWidth, 5 * kLargeWidth})
    list.add(fmt::format("quantize bf16 to f8e4m3, rows of {}", width), {{DType::kBF16, {1, elements / width, width}}},
             {{attr::kDType, DType::kF8E4M3}});
}

/// int8 GEMMs of the small model, and FP8 GEMMs of a large one at 4608 tokens.
void large_scaled_linear_cases(CaseList& list) {
  const auto add = [&](DType narrow, DType made, DType bias, const LargeMatmul& size) {
    std::vector<TensorType> inputs = scaled_operands(narrow, size.rows, size.k, size.n);
    inputs.push_back({bias, {size.n}});
    list.add(fmt::format("scaled_linear {} to {} {}x{}x{}{}", name_of(narrow), name_of(made), size.rows, size.k, size.n,
                         suffix_of(size)),
             std::move(inputs), {{attr::kEpilogue, Epilogue(size.activation)}, {attr::kDType, made}},
             {false, false, true, true, true});
  };
  for (const DType made : {DType::kF32, DType::kBF16})
    for (const LargeMatmul& size : {LargeMatmul{kTokensOfBatch, 192, 192},
                                    {kTokensOfBatch, 192, 576},
                                    {kTokensOfBatch, 192, 768},
                                    {kTokensOfBatch, 192, 768, Activation::kGeluTanh},
                                    {kTokensOfBatch, 768, 192},
                                    {kTokensOfBatch, 960, 192}})
      add(DType::kI8, made, DType::kF32, size);
  for (const LargeMatmul& size : {LargeMatmul{4608, 3072, 3072},
                                  {4608, 3072, 9216},
                                  {4608, 3072, 12288, Activation::kGeluTanh},
                                  {4608, 12288, 3072},
                                  {4608, 15360, 3072}})
    add(DType::kF8E4M3, DType::kBF16, DType::kBF16, size);
}

constexpr std::array kMatmuls = {
    OpDefinition{.op = Op::kLinear,
                 .kind = OpKind::kContraction,
                 .infer = linear_types,
                 .evaluate = linear,
                 .expand = expand_matmul<Op::kLinear>,
                 .derive = derive_linear,
                 .flops = linear_flops,
                 .samples = Samples::kBatched,
                 .inner_axes = 1,
                 .cases = linear_cases,
                 .benchmarks = large_linear_cases},
    OpDefinition{.op = Op::kScaledLinear,
                 .kind = OpKind::kContraction,
                 .infer = scaled_linear_types,
                 .expand = expand_scaled_linear,
                 .no_derivative = "multiplies numbers that were rounded to 8 bits",
                 .flops = linear_flops,
                 .samples = Samples::kBatched,
                 .inner_axes = 1,
                 .stays_f32 = true,
                 .cases = scaled_linear_cases,
                 .benchmarks = large_scaled_linear_cases},
    OpDefinition{.op = Op::kMatmul,
                 .kind = OpKind::kContraction,
                 .infer = matmul_types,
                 .evaluate = matmul,
                 .expand = expand_matmul<Op::kMatmul>,
                 .derive = derive_matmul,
                 .flops = matmul_flops,
                 .samples = Samples::kEvery,
                 .inner_axes = 2,
                 .cases = matmul_cases,
                 .benchmarks = large_matmul_cases},
    OpDefinition{.op = Op::kQuantize,
                 .infer = quantize_types,
                 .evaluate = quantize,
                 .no_derivative = "rounds to 8 bits",
                 .flops = for_each_input<3>,
                 .samples = Samples::kBatched,
                 .inner_axes = 1,
                 .goes_along_rows = true,
                 .stays_f32 = true,
                 .cases = quantize_cases,
                 .benchmarks = large_quantize_cases},
};

}  // namespace

std::span<const OpDefinition> matmuls() { return kMatmuls; }

}  // namespace headroom::ops
