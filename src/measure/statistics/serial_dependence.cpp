#include "measure/statistics/serial_dependence.hpp"

#include <algorithm>
#include <cmath>

#include "measure/statistics/statistics.hpp"

namespace headroom {
namespace {

/// Sums over successive differences and over distances from the mean.
struct Squares {
  double of_steps = 0;
  double about_mean = 0;
};

void add_squares(std::span<const double> values, Squares& squares) {
  double mean = 0;
  for (const double value : values) mean += value / static_cast<double>(values.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    squares.about_mean += (values[i] - mean) * (values[i] - mean);
    if (i > 0) squares.of_steps += (values[i] - values[i - 1]) * (values[i] - values[i - 1]);
  }
}

}  // namespace

std::vector<double> block_medians(std::span<const double> values, std::size_t most) {
  if (values.size() <= most) return {values.begin(), values.end()};
  const std::size_t length = (values.size() + most - 1) / most;
  const std::size_t blocks = values.size() / length;
  std::vector<double> medians;
  for (std::size_t i = 0; i < blocks; ++i)
    medians.push_back(median(values.subspan(i * length, i + 1 < blocks ? length : values.size() - i * length)));
  return medians;
}

SerialDependence serial_dependence(std::span<const double> first, std::span<const double> second) {
  constexpr std::size_t kFewest = 5;
  constexpr double kMost = 0.9;     // above it, a window does not show the variance of the whole
  constexpr double kChance = 0.25;  // standard errors
  if (first.size() + second.size() < kFewest) return {};
  Squares squares;
  add_squares(first, squares);
  add_squares(second, squares);
  if (squares.about_mean <= 0) return {};
  const double estimate = 1 - squares.of_steps / (2 * squares.about_mean);
  const double error = 1 / std::sqrt(static_cast<double>(first.size() + second.size() - 2));
  return {.correlation = std::clamp(estimate + error, 0.0, kMost), .is_drifting = estimate > kChance * error};
}

double variance_inflation(double correlation, std::size_t n) {
  double inflation = 1, power = 1;
  for (std::size_t lag = 1; lag < n; ++lag) {
    power *= correlation;
    inflation += 2 * (1 - static_cast<double>(lag) / static_cast<double>(n)) * power;
  }
  return inflation;
}

}  // namespace headroom
