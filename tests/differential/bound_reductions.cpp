// Sums over axes, extremes, and indices of extremes.

#include <algorithm>
#include <cmath>
#include <span>

#include "differential/bound_parts.hpp"

namespace headroom::differential {
namespace {

/// The error bound of the index `chosen`, of `count` elements with stride `step`: the distance to other elements that
/// may be equal to the chosen one.
double index_error(const Bounded& x, std::size_t first, std::size_t count, std::size_t step, std::size_t chosen,
                   double most) {
  const double value = x.value.reals[first + chosen * step];
  for (std::size_t k = 0; k < count; ++k) {
    const double reach = x.error[first + k * step] + most;
    if (k != chosen && reach > 0 && !(std::fabs(x.value.reals[first + k * step] - value) > reach))
      return static_cast<double>(count);
  }
  return 0;
}

}  // namespace

/// Sums or means of elements: over a row, or over all reduced axes.
Errors reduced_sum_errors(const Site& site) {
  const std::size_t elements = site.operands[0]->error.size(), results = site.results[0].reals.size();
  const std::size_t count =
      site.op == Op::kCumsum ? static_cast<std::size_t>(site.operands[0]->value.type.shape[-1]) : elements / results;
  const Field sizes = evaluate(site, site.op, site.attributes, {magnitudes(site.operands[0]->value)});
  Field error = moved_errors(site)[0];
  for (std::size_t i = 0; i < error.size(); ++i)
    error[i] += static_cast<double>(count + 2) * arithmetic_unit(site.covers) * sizes[i];
  return {error};
}

/// At most the largest error of any element.
Errors reduced_extreme_errors(const Site& site) {
  const Bounded& x = *site.operands[0];
  const OracleTensor off{{DType::kF64, x.value.type.shape}, x.error, {}};
  return {
      interpret_node(Op::kAmax, Attributes(Op::kAmax, {{attr::kAxes, site.attributes[attr::kAxes]}}), {off})[0].reals};
}

Errors argmax_errors(const Site& site) {
  const Bounded& x = *site.operands[0];
  const auto axis = static_cast<int>(site.attributes[attr::kAxis]);
  const auto count = static_cast<std::size_t>(x.value.type.shape[axis]);
  const auto step = static_cast<std::size_t>(row_major_strides(x.value.type.shape)[axis]);
  Field error(site.results[0].integers.size());
  for (std::size_t i = 0; i < error.size(); ++i) {
    const std::size_t first = i / step * step * count + i % step;
    const auto chosen = static_cast<std::size_t>(site.results[0].integers[i]);
    error[i] = index_error(x, first, count, step, chosen, x.error[first + chosen * step]);
  }
  return {error};
}

/// A sorted row changes by at most the largest change of any element.
Errors topk_errors(const Site& site) {
  const Bounded& x = *site.operands[0];
  const auto width = static_cast<std::size_t>(x.value.type.shape[-1]);
  const auto k = static_cast<std::size_t>(site.attributes[attr::kK]);
  Errors errors = {Field(site.results[0].reals.size()), Field(site.results[1].integers.size())};
  for (std::size_t i = 0; i < errors[0].size(); ++i) {
    const std::size_t first = i / k * width;
    const double most = std::ranges::max(std::span(x.error).subspan(first, width));
    errors[0][i] = most;
    errors[1][i] = index_error(x, first, width, 1, static_cast<std::size_t>(site.results[1].integers[i]), most);
  }
  return errors;
}

}  // namespace headroom::differential
