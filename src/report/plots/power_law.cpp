#include "report/plots/power_law.hpp"

#include <fmt/format.h>

#include <cmath>
#include <numeric>
#include <vector>

#include "base/error.hpp"
#include "measure/statistics/distributions.hpp"

namespace headroom {
namespace {

std::vector<double> logs_of(std::span<const double> values) {
  std::vector<double> logs;
  for (const double value : values) {
    HR_CHECK(std::isfinite(value) && value > 0);
    logs.push_back(std::log(value));
  }
  return logs;
}

}  // namespace

double PowerLaw::at(double x) const { return scale * std::pow(x, exponent); }

std::string PowerLaw::exponent_text() const {
  return fmt::format("{:.2f} [{:.2f}, {:.2f}]", exponent, interval.low, interval.high);
}

PowerLaw fit_power_law(std::span<const double> x, std::span<const double> y) {
  HR_CHECK_EQ(x.size(), y.size());
  HR_CHECK_LE(3U, x.size());
  const std::vector<double> u = logs_of(x), v = logs_of(y);
  const auto n = static_cast<double>(u.size());
  const double u_mean = std::accumulate(u.begin(), u.end(), 0.0) / n,
               v_mean = std::accumulate(v.begin(), v.end(), 0.0) / n;
  double uu = 0, uv = 0;
  for (std::size_t i = 0; i < u.size(); ++i) {
    uu += (u[i] - u_mean) * (u[i] - u_mean);
    uv += (u[i] - u_mean) * (v[i] - v_mean);
  }
  HR_CHECK(uu > 0);
  const double slope = uv / uu, intercept = v_mean - slope * u_mean;
  double residuals = 0;
  for (std::size_t i = 0; i < u.size(); ++i) residuals += std::pow(v[i] - intercept - slope * u[i], 2);
  const double error = std::sqrt(residuals / (n - 2) / uu);
  const double reach = students_t_quantile(n - 2, 0.975) * error;
  return {.scale = std::exp(intercept), .exponent = slope, .interval = {slope - reach, slope + reach}};
}

}  // namespace headroom
