// Softmax and norms, over rows and over groups of channels.

#include <algorithm>
#include <cmath>
#include <span>

#include "differential/bound_parts.hpp"

namespace headroom::differential {
namespace {

using Span = std::span<const double>;

/// y = c / s, s = sqrt(mean(c^2) + eps), for a row c with error `off`: s changes by at most the root mean square of
/// `off`. Nothing is known if the sum of squares may exceed the range of f32.
void normalize(Span y, Span off, double s, double unit, std::span<double> error) {
  double squares = 0;
  for (const double o : off) squares += o * o;
  const auto width = static_cast<double>(off.size());
  const double moved = std::sqrt(squares / width);
  const bool overflows = !(width * (s + moved) * (s + moved) <= largest_of(DType::kF32));
  for (std::size_t i = 0; i < y.size(); ++i) {
    const double most = std::sqrt(width) + std::fabs(y[i]);  // no |y| exceeds sqrt(width)
    error[i] = moved < s ? (off[i] + std::fabs(y[i]) * moved) / (s - moved) : most;
    error[i] = overflows ? kInfinity : std::min(most, error[i] + (8 + width) * unit * std::fabs(y[i]));
  }
}

/// The error of `y` = (x - mean) / sqrt(variance + eps).
void normalize_centered(Span y, Span x, Span x_error, double eps, double unit, std::span<double> error) {
  const auto width = static_cast<double>(x.size());
  double mean = 0, mean_error = 0, mean_size = 0, variance = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    mean += x[i] / width;
    mean_size += std::fabs(x[i]) / width;
    mean_error += x_error[i] / width;
  }
  Field off(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    variance += (x[i] - mean) * (x[i] - mean) / width;
    off[i] = x_error[i] + mean_error + unit * (std::fabs(x[i]) + (width + 2) * mean_size);
  }
  normalize(y, off, std::sqrt(variance + eps), unit, error);
}

/// The error of y * weight + bias in column `column`, if present, for a y with error `error`.
double affine_error(const Site& site, std::size_t column, double y, double error) {
  double size = std::fabs(y);
  if (site.operands.size() > 1) {
    const double weight = std::fabs(site.operands[1]->value.reals[column]), off = site.operands[1]->error[column];
    error = error * (weight + off) + size * off;
    size *= weight;
  }
  const double rounded = arithmetic_unit(site.covers) * size;  // a product that is not fused with its sum
  return site.operands.size() > 2 ? error + site.operands[2]->error[column] + rounded : error;
}

/// The norm without scale and shift.
Field plain_norm(const Site& site) {
  return interpret_node(site.op, site.attributes, {site.operands[0]->value})[0].reals;
}

}  // namespace

/// p = exp(x - max) / sum: the relative error follows from the error of the exponents. If it exceeds a double, any
/// probability is possible.
Errors softmax_errors(const Site& site) {
  constexpr double kMostExponent = 700;
  const Bounded& x = *site.operands[0];
  const auto width = static_cast<std::size_t>(x.value.type.shape[-1]);
  const double unit = arithmetic_unit(site.covers);
  Field error(x.error.size());
  for (std::size_t start = 0; start < error.size(); start += width) {
    const auto row = std::span(x.value.reals).subspan(start, width);
    const double peak = *std::ranges::max_element(row);
    const double most = *std::ranges::max_element(std::span(x.error).subspan(start, width));
    for (std::size_t i = start; i < start + width; ++i) {
      const double below = std::min(peak - x.value.reals[i], 100.0);
      const double exponent =
          x.error[i] + most + 2 * function_unit(site) + unit * (8 + 2 * below + static_cast<double>(width));
      error[i] = capped(site.results[0].reals[i] * std::expm1(std::min(exponent, kMostExponent)) + 0x1p-120, 1.0);
      if (exponent >= kMostExponent) error[i] = std::isfinite(exponent) ? 1.0 : kInfinity;
    }
  }
  return {error};
}

Errors layer_norm_errors(const Site& site) {
  const Bounded& x = *site.operands[0];
  const auto width = static_cast<std::size_t>(x.value.type.shape[-1]);
  const double eps = site.attributes[attr::kEps], unit = arithmetic_unit(site.covers);
  const Field normal = plain_norm(site);
  Field error(x.error.size());
  for (std::size_t start = 0; start < error.size(); start += width) {
    normalize_centered(Span(normal).subspan(start, width), Span(x.value.reals).subspan(start, width),
                       Span(x.error).subspan(start, width), eps, unit, std::span(error).subspan(start, width));
    for (std::size_t i = start; i < start + width; ++i) error[i] = affine_error(site, i - start, normal[i], error[i]);
  }
  return {error};
}

Errors rms_norm_errors(const Site& site) {
  const Bounded& x = *site.operands[0];
  const auto width = static_cast<std::size_t>(x.value.type.shape[-1]);
  const double eps = site.attributes[attr::kEps], unit = arithmetic_unit(site.covers);
  const Field normal = plain_norm(site);
  Field error(x.error.size());
  for (std::size_t start = 0; start < error.size(); start += width) {
    double squares = 0;
    for (std::size_t i = start; i < start + width; ++i) squares += x.value.reals[i] * x.value.reals[i];
    normalize(Span(normal).subspan(start, width), Span(x.error).subspan(start, width),
              std::sqrt(squares / static_cast<double>(width) + eps), unit, std::span(error).subspan(start, width));
    for (std::size_t i = start; i < start + width; ++i) error[i] = affine_error(site, i - start, normal[i], error[i]);
  }
  return {error};
}

Errors group_norm_errors(const Site& site) {
  const Bounded& x = *site.operands[0];  // [b, c, ...]
  const double eps = site.attributes[attr::kEps], unit = arithmetic_unit(site.covers);
  const auto channels = static_cast<std::size_t>(x.value.type.shape[1]);
  const auto groups = static_cast<std::size_t>(site.attributes[attr::kGroups]);
  const auto counted_channels = static_cast<std::size_t>(site.attributes[attr::kChannels]);
  const std::size_t width = (counted_channels == 0 ? channels : counted_channels) / groups;
  const std::size_t pixels = x.error.size() / (static_cast<std::size_t>(x.value.type.shape[0]) * channels);
  const Field normal = plain_norm(site);
  Field error(x.error.size());  // 0 after the used channels
  for (std::size_t image = 0; image < error.size(); image += channels * pixels) {
    for (std::size_t first = 0; first < groups * width; first += width) {
      const std::size_t start = image + first * pixels, count = width * pixels;
      normalize_centered(Span(normal).subspan(start, count), Span(x.value.reals).subspan(start, count),
                         Span(x.error).subspan(start, count), eps, unit, std::span(error).subspan(start, count));
      for (std::size_t i = 0; i < count; ++i)
        error[start + i] = affine_error(site, first + i / pixels, normal[start + i], error[start + i]);
    }
  }
  return {error};
}

}  // namespace headroom::differential
