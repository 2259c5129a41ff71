// Functions of positions and timesteps, and rotations by them.

#include <algorithm>
#include <cmath>

#include "differential/bound_parts.hpp"

namespace headroom::differential {
namespace {

/// cos and sin of angles with a relative error of `error`.
void angle_errors(const Site& site, double angle, double error, double& of_cos, double& of_sin) {
  const double off = capped(error + arithmetic_unit(site.covers) * (2 + 2 * std::fabs(angle)), 2.0);
  of_cos = of_sin = off;
}

}  // namespace

Errors rope_table_errors(const Site& site) {
  const Bounded& ids = *site.operands[0];
  const std::vector<std::int64_t>& axes = site.attributes[attr::kAxes];
  const double theta = site.attributes[attr::kTheta];
  Errors errors = {Field(site.results[0].reals.size()), Field(site.results[0].reals.size())};
  std::size_t column = 0;
  for (std::size_t source = 0; source < ids.error.size(); ++source) {
    const std::int64_t extent = axes[source % axes.size()];
    for (std::int64_t i = 0; i < extent / 2; ++i, ++column) {
      const double frequency = std::pow(theta, -2.0 * static_cast<double>(i) / static_cast<double>(extent));
      angle_errors(site, value_at(ids.value, source) * frequency, ids.error[source] * frequency, errors[0][column],
                   errors[1][column]);
    }
  }
  return errors;
}

Errors timestep_embedding_errors(const Site& site) {
  const Bounded& t = *site.operands[0];
  const double scale = site.attributes[attr::kScale], period = site.attributes[attr::kMaxPeriod];
  const auto half = static_cast<std::size_t>(site.attributes[attr::kDim] / 2);
  Field error(2 * half * t.error.size());
  for (std::size_t b = 0; b < t.error.size(); ++b)
    for (std::size_t i = 0; i < half; ++i) {
      const double frequency = std::fabs(scale) * std::pow(period, -static_cast<double>(i) / static_cast<double>(half));
      angle_errors(site, value_at(t.value, b) * frequency, t.error[b] * frequency, error[b * 2 * half + i],
                   error[b * 2 * half + half + i]);
    }
  return {error};
}

Errors rope_errors(const Site& site) {
  const Bounded& x = *site.operands[0];
  const Bounded& cos = *site.operands[1];
  const Bounded& sin = *site.operands[2];
  const double unit = 4 * arithmetic_unit(site.covers);
  Field error(x.error.size());
  for (std::size_t pair = 0; pair < error.size() / 2; ++pair) {
    const std::size_t even = 2 * pair, odd = even + 1, angle = pair % cos.error.size();
    const auto product = [&](std::size_t i, const Bounded& table) {
      const double size = std::fabs(x.value.reals[i]), factor = std::fabs(table.value.reals[angle]);
      const double reach = (size + x.error[i]) * (factor + table.error[angle]);
      return std::max(0.0, reach - size * factor) + unit * reach;
    };
    error[even] = product(even, cos) + product(odd, sin);
    error[odd] = product(odd, cos) + product(even, sin);
  }
  return {error};
}

}  // namespace headroom::differential
