#include "pipelines/respacing.hpp"

#include <cmath>

#include "base/error.hpp"

namespace headroom {

std::vector<double> Respacing::levels(double first, double last, std::int64_t steps) const {
  HR_CHECK(kind != Kind::kNone);
  constexpr double kRho = 7;
  const auto bend = [&](double sigma) { return kind == Kind::kKarras ? std::pow(sigma, 1 / kRho) : std::log(sigma); };
  const auto unbend = [&](double bent) { return kind == Kind::kKarras ? std::pow(bent, kRho) : std::exp(bent); };
  const double high = bend(sigma_max.value_or(first)), low = bend(sigma_min.value_or(last));
  std::vector<double> levels;
  for (std::int64_t i = 0; i < steps; ++i) {
    const double along = steps == 1 ? 0 : static_cast<double>(i) / static_cast<double>(steps - 1);
    levels.push_back(unbend(high + along * (low - high)));
  }
  return levels;
}

}  // namespace headroom
