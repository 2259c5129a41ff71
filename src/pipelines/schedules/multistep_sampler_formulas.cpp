// Samplers that keep predictions of earlier steps; sampler_formulas.cpp documents their formulas. Between equal levels
// h is 0. Such a step changes nothing, and a difference of two m over it gives no slope, so the next step is of a
// lower order.

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include "pipelines/schedules/sampler_table_maker.hpp"

namespace headroom {

/// The further states are the earlier predictions, the latest first.
void TableMaker::add_plms(std::size_t i) {
  const NoiseStep& step = steps_[i];
  if (i == 0) {
    add(step.timestep, ddim_step(step, kSample, kOutput), kOutput);
    if (is_last(i)) return;
    // This sample was computed from the sample at the beginning of the step.
    const double of_sample = ddim_step(step, kSample, {}).of[0];
    const LinearForm before = (kSample - ddim_step(step, {}, kSecond)) / of_sample;
    NoiseStep again = step;
    if (step.through) again = {.from = *step.through, .to = steps_[1].from};
    add(steps_[1].timestep, ddim_step(again, before, (kOutput + kSecond) / 2), kSecond);
    return;
  }
  const LinearForm mean = i == 1   ? (3 * kOutput - kSecond) / 2
                          : i == 2 ? (23 * kOutput - 16 * kSecond + 5 * kThird) / 12
                                   : (55 * kOutput - 59 * kSecond + 37 * kThird - 9 * kFourth) / 24;
  add(step.timestep, ddim_step(step, kSample, mean), kOutput, kSecond, kThird);
}

/// The ratio of h to the previous h; 0 if that was infinite or 0.
double TableMaker::step_ratio(std::size_t i) const {
  const double before = log_distance(steps_[i - 1]);
  return before == 0 ? 0 : log_distance(steps_[i]) / before;
}

/// The weight of the change of m in a step, from the remaining noise.
double TableMaker::weight_of_change(double power, double exponent) const {
  if (exponent == 0) return 0;
  return options_.uses_heun ? 1 - (1 - power) / exponent : (1 - power) / 2;
}

/// The second state is the previous m.
void TableMaker::add_dpm(std::size_t i, bool is_stochastic) {
  const NoiseStep& step = steps_[i];
  const LinearForm m = estimate(step.from);
  const bool ends_low =
      options_.euler_at_final || (options_.lower_order_final && all_steps() < 15) || step.to.sigma == 0;
  const bool is_first_order = options_.order == 1 || i == 0 || (is_last(i) && ends_low);
  const LinearForm change = is_first_order ? LinearForm{} : step_ratio(i) * (m - kSecond);
  const double left = decay(step), h = log_distance(step);
  const double power = is_stochastic ? left * left : left;  // of the remaining noise
  const double of_change = is_first_order ? 0 : weight_of_change(power, is_stochastic ? 2 * h : h);
  LinearForm next = step.to.sigma / step.from.sigma * (is_stochastic ? left : 1) * kSample +
                    step.to.alpha * ((1 - power) * m + of_change * change);
  if (is_stochastic) next = next + step.to.sigma * std::sqrt(std::max(0.0, 1 - power)) * kNoise;
  add(step.timestep, next, m);
}

/// The order of a step, as in DPMSolverSinglestepScheduler: 1, 2, 1, 2, ... or 1, 2, 3, 1, 2, 3, ...
std::int64_t TableMaker::listed_order(std::int64_t step) const {
  const std::int64_t count = all_steps(), order = options_.order;
  const bool ends_low = options_.lower_order_final || count % order != 0 || steps_.back().to.sigma == 0;
  // A list of order 3 ends in 1, 2, 1, in 1 or in 1, 2; one of order 2 ends in 1.
  const bool ends_in_one = ends_low && (order != 3 || count % 3 == 0);
  return ends_in_one && step == count - 1 ? 1 : step % order + 1;
}

std::int64_t TableMaker::singlestep_order(std::size_t i) const {
  if (steps_[i].to.sigma == 0) return 1;
  const std::int64_t listed = listed_order(static_cast<std::int64_t>(i) + schedule_.skipped);
  const std::int64_t order = std::min(listed, static_cast<std::int64_t>(i) + 1);
  for (std::int64_t back = 1; back < order; ++back)
    if (log_distance(steps_[i - static_cast<std::size_t>(back)]) == 0) return 1;
  // Differences from the m of pure noise are at equal distances.
  if (order == 3 && options_.uses_heun && steps_[i - 2].from.alpha == 0) return 2;
  return order;
}

/// The second state is the sample at the beginning of the pair or the three; the third and fourth are earlier m, the
/// latest first.
void TableMaker::add_singlestep(std::size_t i, bool is_stochastic) {
  const NoiseStep& step = steps_[i];
  const LinearForm m = estimate(step.from);
  const std::int64_t order = singlestep_order(i);
  const LinearForm begin = order == 1 ? kSample : kSecond;
  const NoiseStep whole{.from = steps_[i + 1 - static_cast<std::size_t>(order)].from, .to = step.to};
  const double left = decay(whole), h = log_distance(whole);
  const double power = is_stochastic ? left * left : left, exponent = is_stochastic ? 2 * h : h;
  // h from the beginning to a level; the ratio is 1 if both are infinite.
  const auto ratio_to = [&](const NoiseLevel& level) {
    const double way = log_distance({.from = whole.from, .to = level});
    return std::isinf(way) ? 1 : h / way;
  };
  LinearForm change;
  if (order == 2) {
    change = weight_of_change(power, exponent) * (ratio_to(step.from) * (m - kThird));
  } else if (order == 3) {
    const double to_second = ratio_to(steps_[i - 1].from), to_third = ratio_to(step.from);
    const LinearForm second = to_second * (kThird - kFourth), third = to_third * (m - kFourth);
    const double weight = exponent == 0 ? 0 : 1 - (1 - power) / exponent;
    change = weight * third;
    if (options_.uses_heun) {
      const double r0 = 1 / to_third, r1 = 1 / to_second, half = is_stochastic ? -0.5 : 0.5;  // as in diffusers
      const LinearForm slope = (r0 * second - r1 * third) / (r0 - r1), bend = 2 * (third - second) / (r0 - r1);
      change = weight * slope + ((1 - power - exponent) / (exponent * exponent) + half) * bend;
    }
  }
  const LinearForm& first = order == 1 ? m : order == 2 ? kThird : kFourth;
  LinearForm next = step.to.sigma / whole.from.sigma * (is_stochastic ? left : 1) * begin +
                    step.to.alpha * ((1 - power) * first + change);
  if (is_stochastic) next = next + step.to.sigma * std::sqrt(std::max(0.0, 1 - power)) * kNoise;
  add(step.timestep, next, begin, m, kThird);
}

/// The number of earlier d, up to `most`, at levels that differ and are not pure noise.
std::size_t TableMaker::known_slopes(std::size_t i, std::size_t most) const {
  std::size_t known = 0;
  while (known < most && known < i) {
    const double at = noise_ratio(steps_[i - known].from), before = noise_ratio(steps_[i - known - 1].from);
    if (at == before || std::isinf(before)) break;
    ++known;
  }
  return known;
}

namespace {

/// The integral from 0 to t of the Lagrange polynomial in ln k that is 1 at logs[j] and 0 at the other one or two.
double log_integral(const std::vector<double>& logs, std::size_t j, double t) {
  if (t == 0) return 0;
  const double log = std::log(t), c = logs[(j + 1) % logs.size()];
  if (logs.size() == 2) return t * (log - c - 1) / (logs[j] - c);
  const double d = logs[(j + 2) % 3];
  return t * (log * log - (2 + c + d) * log + 2 + c + d + c * d) / ((logs[j] - c) * (logs[j] - d));
}

}  // namespace

/// The further states are the noise in earlier predictions, the latest first.
void TableMaker::add_deis(std::size_t i) {
  const NoiseStep& step = steps_[i];
  const LinearForm m = estimate(step.from);
  const LinearForm noise = (kSample - step.from.alpha * m) / step.from.sigma;
  std::int64_t order = options_.order;
  if (options_.lower_order_final && all_steps() < 15)
    order = std::min(order, static_cast<std::int64_t>(steps_.size() - i));
  const auto ratio = [](const NoiseLevel& at) { return at.sigma / at.alpha; };
  std::vector<double> logs;  // of the ratios at which the d were computed
  for (std::size_t back = 0; back <= known_slopes(i, static_cast<std::size_t>(order - 1)); ++back)
    if (steps_[i - back].from.alpha != 0) logs.push_back(std::log(ratio(steps_[i - back].from)));
  if (logs.size() < 2) return add(step.timestep, step.to.alpha * m + step.to.sigma * noise, noise, kSecond);
  const std::array<LinearForm, 3> noises{noise, kSecond, kThird};
  LinearForm next = kSample / step.from.alpha;
  for (std::size_t j = 0; j < logs.size(); ++j)
    next = next + (log_integral(logs, j, ratio(step.to)) - log_integral(logs, j, ratio(step.from))) * noises.at(j);
  add(step.timestep, step.to.alpha * next, noise, kSecond);
}

/// The further states are earlier d, the latest first.
void TableMaker::add_lms(std::size_t i) {
  const NoiseStep& step = steps_[i];
  std::vector<double> ratios;  // at which the d were computed
  for (std::size_t back = 0; back <= known_slopes(i, 3); ++back) ratios.push_back(noise_ratio(steps_[i - back].from));
  const LinearForm d = slope(step.from);
  const std::array<LinearForm, 4> slopes{d, kSecond, kThird, kFourth};
  // The Gauss-Legendre rule of two points, exact for polynomials up to the third degree.
  const double from = ratios.front(), to = noise_ratio(step.to), middle = (from + to) / 2, half = (to - from) / 2;
  LinearForm next = kSample / scale(step.from);
  for (std::size_t j = 0; j < ratios.size(); ++j) {
    double integral = 0;
    for (const double at : {middle - half / std::numbers::sqrt3, middle + half / std::numbers::sqrt3}) {
      double product = half;
      for (std::size_t k = 0; k < ratios.size(); ++k)
        if (k != j) product *= (at - ratios[k]) / (ratios[j] - ratios[k]);
      integral += product;
    }
    next = next + integral * slopes.at(j);
  }
  add(step.timestep, scale(step.to) * next, d, kSecond, kThird);
}

std::int64_t TableMaker::unipc_order(std::size_t i) const {
  const auto left = static_cast<std::int64_t>(steps_.size() - i);
  if (i > 0 && log_distance(steps_[i - 1]) == 0) return 1;
  // Without noise at the end, h is infinite there and m has no slope.
  const bool ends_low = options_.lower_order_final || steps_.back().to.sigma == 0;
  return std::min({options_.order, static_cast<std::int64_t>(i) + 1, ends_low ? left : options_.order});
}

TableMaker::Correction TableMaker::correction(std::size_t i) const {
  const std::int64_t number = static_cast<std::int64_t>(i) + schedule_.skipped;
  const bool is_off = std::ranges::find(options_.disable_corrector, number) != options_.disable_corrector.end();
  if (is_last(i) || is_off || log_distance(steps_[i]) == 0) return {};
  const double u = -log_distance(steps_[i]), e = std::expm1(u), base = options_.uses_bh1 ? u : e;
  const double f = e / u - 1, b1 = f / base, b2 = (f / u - 0.5) * 2 / base;
  const double weight = -steps_[i].to.alpha * base;
  if (unipc_order(i) == 1) return {.of_new = weight / 2, .is_on = true};
  const double q = -1 / step_ratio(i);  // position of the previous m, in units of h
  const double p1 = std::isinf(q) ? 0 : (b1 - b2) / (1 - q);
  return {.of_new = weight * (b1 - p1), .of_change = std::isinf(q) ? 0 : weight * p1 / q, .is_on = true};
}

/// The second state is this step repeated without the m at its end; the third is its m.
void TableMaker::add_unipc(std::size_t i) {
  const NoiseStep& step = steps_[i];
  const LinearForm m = estimate(step.from);
  const Correction before = i == 0 ? Correction{} : correction(i - 1);
  const LinearForm x = before.is_on ? kSecond + before.of_new * m : kSample;
  const double remainder = step.to.sigma / step.from.sigma, gain = step.to.alpha * (1 - decay(step));
  const LinearForm first_order = remainder * x + gain * m;
  LinearForm next = first_order;
  if (unipc_order(i) == 2) {
    const double base = options_.uses_bh1 ? step.to.alpha * log_distance(step) : gain;
    next = next + base / 2 * step_ratio(i) * (m - kThird);
  }
  const Correction again = correction(i);
  const LinearForm corrected = first_order - again.of_new * m + again.of_change * (kThird - m);
  add(step.timestep, next, again.is_on ? corrected : LinearForm{}, m);
}

}  // namespace headroom
