#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "ir/ops/families.hpp"

// Rows along the innermost axis: norms and running sums.

namespace headroom::ops {
namespace {

std::vector<TensorType> row_types(const TypeQuery& given) {
  given.require(is_float(given.in[0].dtype) && given.in[0].shape.rank() >= 1, "x[..., d] of a floating-point dtype");
  return {given.in[0]};
}

std::vector<TensorType> rms_norm_types(const TypeQuery& given) {
  given.require(
      is_float(given.in[0].dtype) && given.in[0].shape.rank() >= 1 && given.in[1].shape == Shape{given.in[0].shape[-1]},
      "x[..., d] of a floating-point dtype and weight[d]");
  given.require(fits_beside(given.in[1].dtype, given.in[0].dtype), "weight in the dtype of x or f32");
  return {given.in[0]};
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

void layer_norm(const Attributes& attributes, Operands in, std::span<OracleTensor> out) {
  const OracleTensor& x = *in[0];
  const double eps = attributes.get_float("eps");
  for_each_row(x, out[0], [eps](std::span<const double> row, std::span<double> result) {
    const double mean = mean_of(row);
    std::ranges::transform(row, result.begin(), [mean](double value) { return value - mean; });
    const double variance = dot(result.data(), result.data(), result.size()) / static_cast<double>(result.size());
    for (double& value : result) value /= std::sqrt(variance + eps);
  });
}

void rms_norm(const Attributes& attributes, Operands in, std::span<OracleTensor> out) {
  const double eps = attributes.get_float("eps");
  const std::vector<double>& weight = in[1]->reals;
  for_each_row(*in[0], out[0], [&](std::span<const double> row, std::span<double> result) {
    const double mean_square = dot(row.data(), row.data(), row.size()) / static_cast<double>(row.size());
    for (std::size_t i = 0; i < row.size(); ++i) result[i] = row[i] / std::sqrt(mean_square + eps) * weight[i];
  });
}

void cumsum(const Attributes& /*attributes*/, Operands in, std::span<OracleTensor> out) {
  for_each_row(*in[0], out[0], [](std::span<const double> row, std::span<double> result) {
    std::partial_sum(row.begin(), row.end(), result.begin());
  });
}

constexpr OpDefinition along_rows(Op op, decltype(OpDefinition::infer) infer, decltype(OpDefinition::evaluate) evaluate,
                                  double flops) {
  return {.op = op,
          .kind = OpKind::kOther,
          .infer = infer,
          .evaluate = evaluate,
          .flops = flops,
          .samples = Samples::kFirst,
          .inner_axes = 1};
}

constexpr std::array kNorms = {
    along_rows(Op::kSoftmax, row_types, softmax, 5),
    along_rows(Op::kLayerNorm, row_types, layer_norm, 6),
    along_rows(Op::kRmsNorm, rms_norm_types, rms_norm, 4),
    along_rows(Op::kCumsum, row_types, cumsum, 1),
};

}  // namespace

std::span<const OpDefinition> norms() { return kNorms; }

}  // namespace headroom::ops
