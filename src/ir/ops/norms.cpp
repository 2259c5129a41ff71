#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <utility>

#include "base/error.hpp"
#include "ir/activation.hpp"
#include "ir/builder.hpp"
#include "ir/ops/families.hpp"
#include "ir/ops/gradient_parts.hpp"
#include "ir/test_cases/op_cases.hpp"

// Norms, and cumulative sums along the innermost axis.

namespace headroom::ops {
namespace {

std::vector<TensorType> row_types(const TypeQuery& given) {
  given.require(is_float(given.in[0].dtype) && given.in[0].shape.rank() >= 1, "x[..., d] of a floating-point dtype");
  return {given.in[0]};
}

/// The operands after x: weight and bias, with one element for each of `count` rows or columns.
void require_affine(const TypeQuery& given, std::int64_t count, std::string_view form) {
  for (const TensorType& vector : own_operands(given.attributes, given.in).subspan(1)) {
    given.require(vector.shape == Shape{count}, form);
    given.require(is_vector_dtype(vector.dtype, given.in[0].dtype) && vector.dtype == given.in[1].dtype,
                  "weight and bias of one dtype, that of x or f32");
  }
}

std::vector<TensorType> norm_types(const TypeQuery& given) {
  constexpr std::string_view kForm = "x[..., d] of a floating-point dtype, and weight[d] and bias[d] if any";
  given.require(is_float(given.in[0].dtype) && given.in[0].shape.rank() >= 1, kForm);
  require_affine(given, given.in[0].shape[-1], kForm);
  return {given.in[0]};
}

/// The number of real channels of a group_norm.
std::int64_t counted_channels(const Attributes& attributes, const Shape& x) {
  const std::int64_t channels = attributes[attr::kChannels];
  return channels == 0 ? x[1] : channels;
}

std::vector<TensorType> group_norm_types(const TypeQuery& given) {
  constexpr std::string_view kForm = "x[b, c, ...] of a floating-point dtype, and weight[c] and bias[c] if any";
  const TensorType& x = given.in[0];
  given.require(is_float(x.dtype) && x.shape.rank() >= 2, kForm);
  require_affine(given, x.shape[1], kForm);
  const std::int64_t counted = counted_channels(given.attributes, x.shape);
  if (counted < 1 || counted > x.shape[1])
    fail("group_norm: channels must be in 1..{} for {}, or 0 for all, but was given {}", x.shape[1], x, counted);
  const std::int64_t groups = given.attributes[attr::kGroups];
  if (groups < 1 || counted % groups != 0)
    fail("group_norm: groups must divide the {} channels, but was given {}", counted, groups);
  require_image_epilogue(given, x);
  return {x};
}

/// Calls visit(x row, out row) for each row along the innermost axis of two tensors of one shape.
template <typename Visit>
void for_each_row(const OracleTensor& x, OracleTensor& out, Visit visit) {
  const std::size_t width = extent(x, -1);
  for (std::size_t start = 0; start < x.reals.size(); start += width) {
    visit(std::span(x.reals).subspan(start, width), std::span(out.reals).subspan(start, width));
  }
}

void softmax(const Attributes& /*attributes*/, Operands in, std::span<OracleTensor> out) {
  const OracleTensor& x = *in[0];
  for_each_row(x, out[0], [](std::span<const double> row, std::span<double> result) {
    const double largest = *std::ranges::max_element(row);
    std::ranges::transform(row, result.begin(), [largest](double value) { return std::exp(value - largest); });
    const double sum = std::accumulate(result.begin(), result.end(), 0.0);
    for (double& value : result) value /= sum;
  });
}

/// Column i of a normalized row, times the weight and plus the bias if they are given.
double affine(Operands in, std::size_t i, double value) {
  if (in.size() > 1) value *= in[1]->reals[i];
  return in.size() > 2 ? value + in[2]->reals[i] : value;
}

void layer_norm(const Attributes& attributes, Operands in, std::span<OracleTensor> out) {
  const double eps = attributes[attr::kEps];
  for_each_row(*in[0], out[0], [&](std::span<const double> row, std::span<double> result) {
    const double mean = mean_of(row);
    std::ranges::transform(row, result.begin(), [mean](double value) { return value - mean; });
    const double variance = dot(result.data(), result.data(), result.size()) / static_cast<double>(result.size());
    for (std::size_t i = 0; i < row.size(); ++i) result[i] = affine(in, i, result[i] / std::sqrt(variance + eps));
  });
}

void rms_norm(const Attributes& attributes, Operands in, std::span<OracleTensor> out) {
  const double eps = attributes[attr::kEps];
  for_each_row(*in[0], out[0], [&](std::span<const double> row, std::span<double> result) {
    const double mean_square = dot(row.data(), row.data(), row.size()) / static_cast<double>(row.size());
    for (std::size_t i = 0; i < row.size(); ++i) result[i] = affine(in, i, row[i] / std::sqrt(mean_square + eps));
  });
}

void group_norm(const Attributes& attributes, Operands in, std::span<OracleTensor> out) {
  const OracleTensor& x = *in[0];  // [b, c, ...]
  const double eps = attributes[attr::kEps];
  const std::size_t channels = extent(x, 1);
  const auto groups = static_cast<std::size_t>(attributes[attr::kGroups]);
  const std::size_t width = static_cast<std::size_t>(counted_channels(attributes, x.type.shape)) / groups;
  const std::size_t pixels = x.reals.size() / std::max<std::size_t>(1, extent(x, 0) * channels);
  for (std::size_t b = 0; b < extent(x, 0); ++b) {
    for (std::size_t first = 0; first < groups * width; first += width) {
      const std::size_t start = (b * channels + first) * pixels;
      const auto group = std::span(x.reals).subspan(start, width * pixels);
      const auto result = std::span(out[0].reals).subspan(start, width * pixels);
      const double mean = mean_of(group);
      std::ranges::transform(group, result.begin(), [mean](double value) { return value - mean; });
      const double variance = dot(result.data(), result.data(), result.size()) / static_cast<double>(result.size());
      for (std::size_t i = 0; i < result.size(); ++i)
        result[i] = affine(in, first + i / pixels, result[i] / std::sqrt(variance + eps));
    }
    const auto image = std::span(out[0].reals).subspan(b * channels * pixels, channels * pixels);
    std::ranges::fill(image.subspan(groups * width * pixels), 0.0);
  }
}

std::vector<ValueId> expand_group_norm(Builder& builder, const Attributes& attributes, std::span<const ValueId> in) {
  const std::span<const ValueId> own = own_operands(attributes, in);
  const Attributes plain = attributes.with(attr::kEpilogue, Epilogue());
  const ValueId normed =
      builder.emit(Op::kGroupNorm, {own.begin(), own.end()}, {plain.all().begin(), plain.all().end()})[0];
  return {ended(builder, attributes, normed, in)};
}

double group_norm_flops(const Attributes& attributes, Types in, Types out) {
  const auto own = static_cast<double>(own_operands(attributes, in).size());
  const double each = 5 + own + flops_of(attributes[attr::kEpilogue]);
  return each * static_cast<double>(out[0].shape.numel());
}

void cumsum(const Attributes& /*attributes*/, Operands in, std::span<OracleTensor> out) {
  for_each_row(*in[0], out[0], [](std::span<const double> row, std::span<double> result) {
    std::partial_sum(row.begin(), row.end(), result.begin());
  });
}

/// The mean of each row of x[..., d]: [..., 1].
ValueId row_means(Builder& builder, ValueId x) {
  const Shape shape = builder.shape(x);
  const Ints innermost = {shape.rank() - 1};
  return with_shape(builder, builder.mean(x, innermost), with_ones(shape, innermost));
}

std::vector<ValueId> derive_softmax(Builder& builder, const Derivation& node) {
  const DType dtype = builder.dtype(node.out[0]), working = summing_dtype(dtype);
  const ValueId made = builder.cast(node.gradient(), working), p = builder.cast(node.out[0], working);  // [..., d]
  const Shape shape = builder.shape(p);
  const Ints innermost = {shape.rank() - 1};
  const ValueId total = builder.sum(builder.mul(made, p), innermost);
  const ValueId column = with_shape(builder, total, with_ones(shape, innermost));
  return {builder.cast(builder.mul(p, builder.sub(made, column)), dtype)};
}

/// The rows x[..., d] times the inverse of their root mean square or standard deviation, and that inverse.
struct NormedRows {
  ValueId rows;     ///< [..., d]
  ValueId inverse;  ///< [..., 1]
};

/// Subtracts the mean of each row first if `centres`.
NormedRows normalize_rows(Builder& builder, ValueId x, double eps, bool centres) {
  const ValueId centred = centres ? builder.sub(x, row_means(builder, x)) : x;
  const ValueId square = row_means(builder, builder.mul(centred, centred));
  const ValueId inverse = builder.rsqrt(builder.add_scalar(square, eps));
  return {builder.mul(centred, inverse), inverse};
}

/// The gradient of the rows before they were normalized, from that of the normalized rows.
ValueId derive_normed_rows(Builder& builder, const NormedRows& normed, ValueId made, bool centres) {
  const ValueId along = row_means(builder, builder.mul(made, normed.rows));
  ValueId across = builder.sub(made, builder.mul(normed.rows, along));
  if (centres) across = builder.sub(across, row_means(builder, made));
  return builder.mul(across, normed.inverse);
}

/// x behind views that passes do not fuse across: what is computed of it is computed anew where the gradient is, and
/// not kept from the forward pass.
ValueId stored(Builder& builder, ValueId x) { return with_shape(builder, as_rows(builder, x), builder.shape(x)); }

template <bool kCentres>
std::vector<ValueId> derive_norm(Builder& builder, const Derivation& node) {
  const DType dtype = builder.dtype(node.in[0]), working = summing_dtype(dtype);
  const ValueId made = builder.cast(node.gradient(), working);  // [..., d]
  const ValueId x = builder.cast(stored(builder, node.in[0]), working);
  const NormedRows normed = normalize_rows(builder, x, node.attributes[attr::kEps], kCentres);
  std::vector<ValueId> gradients(node.in.size(), kNoValue);
  if (node.wanted[0]) {
    const ValueId scaled = node.in.size() > 1 ? builder.mul(made, builder.cast(node.in[1], working)) : made;
    gradients[0] = builder.cast(derive_normed_rows(builder, normed, scaled, kCentres), dtype);
  }
  if (node.in.size() > 1 && node.wanted[1])
    gradients[1] =
        sum_to(builder, builder.cast(builder.mul(made, normed.rows), dtype), builder.graph().type(node.in[1]));
  if (node.in.size() > 2 && node.wanted[2])
    gradients[2] = sum_to(builder, node.gradient(), builder.graph().type(node.in[2]));
  return gradients;
}

/// Channels beyond the real ones have no part in anything.
std::vector<ValueId> derive_group_norm(Builder& builder, const Derivation& node) {
  const TensorType type = builder.graph().type(node.in[0]);  // [b, c, ...]
  const DType working = summing_dtype(type.dtype);
  const std::int64_t channels = type.shape[1], counted = counted_channels(node.attributes, type.shape);
  const std::int64_t groups = node.attributes[attr::kGroups];
  const auto real_along = [&](ValueId x, int axis) {
    x = builder.cast(x, working);
    return counted == channels ? x : builder.slice(x, axis, 0, counted);
  };
  const auto padded_along = [&](ValueId x, std::size_t axis, DType dtype) {
    x = builder.cast(x, dtype);
    if (counted == channels) return x;
    Ints after(static_cast<std::size_t>(builder.shape(x).rank()), 0);
    const Ints before = after;
    after[axis] = channels - counted;
    return builder.pad(x, before, after);
  };
  Shape column{counted};  // [counted, 1, ...]
  for (int axis = 2; axis < type.shape.rank(); ++axis) column.push_back(1);

  const ValueId x = real_along(node.in[0], 1), made = real_along(node.gradient(), 1);  // [b, counted, ...]
  const Shape shape = builder.shape(x);
  const Shape rows{shape[0], groups, shape.numel() / (shape[0] * groups)};
  const NormedRows normed = normalize_rows(builder, with_shape(builder, x, rows), node.attributes[attr::kEps], true);
  std::vector<ValueId> gradients(node.in.size(), kNoValue);
  if (node.wanted[0]) {
    const bool has_weight = node.in.size() > 1;
    const ValueId scaled =
        has_weight ? builder.mul(made, with_shape(builder, real_along(node.in[1], 0), column)) : made;
    const ValueId gradient = derive_normed_rows(builder, normed, with_shape(builder, scaled, rows), true);
    gradients[0] = padded_along(with_shape(builder, gradient, shape), 1, type.dtype);
  }
  Ints but_channels = {0};
  for (int axis = 2; axis < shape.rank(); ++axis) but_channels.push_back(axis);
  if (node.in.size() > 1 && node.wanted[1]) {
    const ValueId product = builder.mul(made, with_shape(builder, normed.rows, shape));
    gradients[1] = padded_along(builder.sum(product, but_channels), 0, builder.dtype(node.in[1]));
  }
  if (node.in.size() > 2 && node.wanted[2])
    gradients[2] = padded_along(builder.sum(made, but_channels), 0, builder.dtype(node.in[2]));
  return gradients;
}

/// x[..., d] from its last column to its first.
ValueId reversed_rows(Builder& builder, ValueId x) {
  Ints perm(static_cast<std::size_t>(builder.shape(x).rank()));
  std::iota(perm.begin(), perm.end(), std::int64_t{0});
  std::swap(perm.front(), perm.back());
  const std::int64_t width = builder.shape(x)[-1];
  std::vector<double> order;
  for (std::int64_t i = width; i-- > 0;) order.push_back(static_cast<double>(i));
  const ValueId ids = builder.constant(std::move(order), Shape{width}, DType::kI32);
  return builder.transpose(builder.gather(builder.transpose(x, perm), ids), perm);
}

/// Element i of x is part of the sums from i on.
std::vector<ValueId> derive_cumsum(Builder& builder, const Derivation& node) {
  const DType dtype = builder.dtype(node.in[0]);
  const ValueId made = builder.cast(node.gradient(), summing_dtype(dtype));
  const ValueId sums = builder.emit(Op::kCumsum, {reversed_rows(builder, made)})[0];
  return {builder.cast(reversed_rows(builder, sums), dtype)};
}

constexpr std::array kNormColumns = {17, 64};

/// Cases of an op of rows without other operands and attributes.
void row_cases(CaseList& list) {
  for (const std::int64_t columns : kNormColumns)
    list.add(fmt::format("rows of {}", columns), {list.data({2, 5, columns})});
}

void rms_norm_cases(CaseList& list) {
  for (const std::int64_t columns : kNormColumns) {
    const TensorType x = list.data({2, 5, columns});
    list.add(fmt::format("rows of {}", columns), {x}, {{attr::kEps, 1e-6}});
    list.add(fmt::format("rows of {}, weight", columns), {x, list.vector({columns})}, {{attr::kEps, 1e-6}});
  }
}

void layer_norm_cases(CaseList& list) {
  for (const std::int64_t columns : kNormColumns) {
    const TensorType x = list.data({2, 5, columns}), vector = list.vector({columns});
    list.add(fmt::format("rows of {}", columns), {x}, {{attr::kEps, 1e-5}});
    list.add(fmt::format("rows of {}, weight and bias", columns), {x, vector, vector}, {{attr::kEps, 1e-5}});
  }
}

void group_norm_cases(CaseList& list) {
  for (const Layout layout : {Layout::kRowMajor, Layout::kChannelsLast})
    for (const Shape& shape : {Shape{2, 8, 5, 3}, Shape{1, 32, 16, 16}, Shape{2, 64, 32, 32}})
      for (const Activation activation :
           {Activation::kNone, Activation::kRelu, Activation::kSilu, Activation::kGeluTanh, Activation::kGeluErf})
        for (const bool is_affine : {false, true}) {
          std::vector<TensorType> inputs = {list.data(shape, layout)};
          if (is_affine) inputs.insert(inputs.end(), 2, list.vector({shape[1]}));
          OpCase& added = list.add(
              fmt::format("{}{}{}{}", shape, is_affine ? ", weight and bias" : "",
                          activation == Activation::kNone ? "" : fmt::format(", {}", name_of(activation)),
                          layout == Layout::kChannelsLast ? ", channels last" : ""),
              std::move(inputs), {{attr::kGroups, 4}, {attr::kEps, 1e-5}, {attr::kEpilogue, Epilogue(activation)}});
          // Kernels multiply x and the mean by an infinite factor before they subtract.
          added.leaves_open = [](std::size_t input, Special special) {
            return input > 0 && special == Special::kInfinities;
          };
        }
}

/// Norms of the rows of large tensors; each has a weight, if its op cannot do without.
void large_row_cases(CaseList& list) {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    std::vector<TensorType> inputs = {large_tokens(dtype)};
    if (list.op() == Op::kRmsNorm) inputs.push_back({dtype, {kLargeWidth}});
    NamedAttributes attributes;
    if (list.op() != Op::kSoftmax) attributes.emplace_back(attr::kEps, 1e-6);
    list.add(fmt::format("{} {}", name_of(list.op()), name_of(dtype)), std::move(inputs), std::move(attributes),
             {false, true});
  }
}

/// A norm of an autoencoder's decoder.
void large_group_norm_cases(CaseList& list) {
  for (const DType dtype : {DType::kF32, DType::kBF16})
    list.add(fmt::format("group_norm {} with silu, 128 channels, 512x512", name_of(dtype)),
             {{dtype, {1, 128, 512, 512}, Layout::kChannelsLast}, {dtype, {128}}, {dtype, {128}}},
             {{attr::kGroups, 32}, {attr::kEps, 1e-6}, {attr::kEpilogue, Epilogue(Activation::kSilu)}},
             {false, true, true});
}

constexpr OpDefinition along_rows(Op op, decltype(OpDefinition::infer) infer, decltype(OpDefinition::evaluate) evaluate,
                                  decltype(OpDefinition::derive) derive, double flops,
                                  decltype(OpDefinition::cases) cases, bool is_fusable = true) {
  return {.op = op,
          .kind = OpKind::kOther,
          .infer = infer,
          .evaluate = evaluate,
          .derive = derive,
          .flops = flops,
          .samples = Samples::kBatched,
          .inner_axes = 1,
          .goes_along_rows = is_fusable,
          .cases = cases};
}

constexpr OpDefinition softmax_along_rows() {
  OpDefinition row = along_rows(Op::kSoftmax, row_types, softmax, derive_softmax, 5, row_cases);
  row.exponentials = 1;
  row.benchmarks = large_row_cases;
  return row;
}

constexpr OpDefinition norm_along_rows(Op op, decltype(OpDefinition::evaluate) evaluate,
                                       decltype(OpDefinition::derive) derive, double flops,
                                       decltype(OpDefinition::cases) cases) {
  OpDefinition row = along_rows(op, norm_types, evaluate, derive, flops, cases);
  row.benchmarks = large_row_cases;
  return row;
}

constexpr std::array kNorms = {
    softmax_along_rows(),
    norm_along_rows(Op::kLayerNorm, layer_norm, derive_norm<true>, 6, layer_norm_cases),
    norm_along_rows(Op::kRmsNorm, rms_norm, derive_norm<false>, 4, rms_norm_cases),
    along_rows(Op::kCumsum, row_types, cumsum, derive_cumsum, 1, row_cases, false),
    OpDefinition{.op = Op::kGroupNorm,
                 .infer = group_norm_types,
                 .evaluate = group_norm,
                 .expand = expand_group_norm,
                 .derive = derive_group_norm,
                 .flops = group_norm_flops,
                 .samples = Samples::kBatched,
                 .any_layout = true,
                 .cases = group_norm_cases,
                 .benchmarks = large_group_norm_cases},
};

}  // namespace

std::span<const OpDefinition> norms() { return kNorms; }

}  // namespace headroom::ops
