#include "pipelines/schedules/respacing.hpp"

#include <cmath>
#include <numbers>

#include "base/error.hpp"

namespace headroom {
namespace {

/// Both parameters of the distribution, as in diffusers.
constexpr double kBetaShape = 0.6;

/// The distribution function of a symmetric beta distribution at x from 0 to 1/2, by its power series (Abramowitz and
/// Stegun, 26.5.4). Each term is at most half of the previous one.
double beta_distribution(double x, double shape) {
  const double norm = std::tgamma(2 * shape) / (std::tgamma(shape) * std::tgamma(shape));  // 1 / B(shape, shape)
  double term = std::pow(x, shape), sum = term / shape;
  for (int n = 1; n <= 200 && term != 0; ++n) {
    term *= x * (n - shape) / n;
    sum += term / (shape + n);
  }
  return norm * sum;
}

}  // namespace

double beta_quantile(double p, double shape) {
  if (p > 0.5) return 1 - beta_quantile(1 - p, shape);
  // By bisection in ln x, so that small quantiles are as accurate as large ones.
  double low = std::log(1e-300), high = -std::numbers::ln2;
  if (p <= 0) return 0;
  for (int round = 0; round < 200; ++round) {
    const double middle = (low + high) / 2;
    if (middle == low || middle == high) break;
    (beta_distribution(std::exp(middle), shape) < p ? low : high) = middle;
  }
  return std::exp(high);
}

std::vector<double> Respacing::levels(double first, double last, std::int64_t steps) const {
  HR_CHECK(kind != Kind::kNone);
  constexpr double kRho = 7;
  const auto bend = [&](double sigma) { return kind == Kind::kKarras ? std::pow(sigma, 1 / kRho) : std::log(sigma); };
  const auto unbend = [&](double bent) { return kind == Kind::kKarras ? std::pow(bent, kRho) : std::exp(bent); };
  const double most = sigma_max.value_or(first), least = sigma_min.value_or(last);
  const double high = bend(most), low = bend(least);
  std::vector<double> levels;
  for (std::int64_t i = 0; i < steps; ++i) {
    const double along = steps == 1 ? 0 : static_cast<double>(i) / static_cast<double>(steps - 1);
    levels.push_back(kind == Kind::kBeta ? least + beta_quantile(1 - along, kBetaShape) * (most - least)
                                         : unbend(high + along * (low - high)));
  }
  return levels;
}

}  // namespace headroom
