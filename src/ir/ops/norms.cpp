#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "base/error.hpp"
#include "ir/activation.hpp"
#include "ir/builder.hpp"
#include "ir/ops/families.hpp"

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

constexpr OpDefinition along_rows(Op op, decltype(OpDefinition::infer) infer, decltype(OpDefinition::evaluate) evaluate,
                                  double flops, bool is_fusable = true) {
  return {.op = op,
          .kind = OpKind::kOther,
          .infer = infer,
          .evaluate = evaluate,
          .flops = flops,
          .samples = Samples::kBatched,
          .inner_axes = 1,
          .goes_along_rows = is_fusable};
}

constexpr OpDefinition softmax_along_rows() {
  OpDefinition row = along_rows(Op::kSoftmax, row_types, softmax, 5);
  row.exponentials = 1;
  return row;
}

constexpr std::array kNorms = {
    softmax_along_rows(),
    along_rows(Op::kLayerNorm, norm_types, layer_norm, 6),
    along_rows(Op::kRmsNorm, norm_types, rms_norm, 4),
    along_rows(Op::kCumsum, row_types, cumsum, 1, false),
    OpDefinition{.op = Op::kGroupNorm,
                 .infer = group_norm_types,
                 .evaluate = group_norm,
                 .expand = expand_group_norm,
                 .flops = group_norm_flops,
                 .samples = Samples::kBatched,
                 .any_layout = true},
};

}  // namespace

std::span<const OpDefinition> norms() { return kNorms; }

}  // namespace headroom::ops
