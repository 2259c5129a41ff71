#pragma once

#include <span>
#include <string>

#include "measure/statistics/statistics.hpp"

namespace headroom {

/// y = scale * x^exponent.
struct PowerLaw {
  double scale = 0;
  double exponent = 0;
  Interval interval;  ///< 95% interval of the exponent

  [[nodiscard]] double at(double x) const;
  /// "1.12 [1.08, 1.16]".
  [[nodiscard]] std::string exponent_text() const;
};

/// Fits a power law by least squares of log y over log x. The interval is Student's, with n - 2 degrees of freedom
/// (Draper and Smith, "Applied Regression Analysis", 1998, section 1.4). It covers both noise and deviation from a
/// line. Throws std::logic_error for fewer than three points, fewer than two different x, or a value that is not
/// finite and positive.
[[nodiscard]] PowerLaw fit_power_law(std::span<const double> x, std::span<const double> y);

}  // namespace headroom
