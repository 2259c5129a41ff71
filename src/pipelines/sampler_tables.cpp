// Samplers as linear updates. Of a step from the level (a, s) to (a', s'), with the estimate m of the image:
//
//   euler, ddim      y' = y + (k' - k) d, d = (y - m) / k, where y = x / a and k = s / a; of flow matching y = x, k = s
//                    (Song et al., "Denoising Diffusion Implicit Models", 2021, equation 12 with eta = 0: the same)
//   plms             DDIM's step with a mean of the last answers: of the first step, which is made again from its beginning
//                    when the answer at its end is known, of both; then by Adams and Bashforth, (3, -1)/2, (23, -16, 5)/12,
//                    (55, -59, 37, -9)/24 (Liu et al., "Pseudo Numerical Methods for Diffusion Models", 2022, F-PNDM
//                    without Runge and Kutta's steps)
//   heun             the mean of the d at both ends in place of d (Karras et al., 2022, algorithm 1)
//   dpm++2m          x' = (s'/s) x + a' (1 - e^-h) M, h = ln(a'/s') - ln(a/s), M = m + (m - m_before) h / (2 h_before)
//                    (Lu et al., "DPM-Solver++", 2022, algorithm 2)
//   dpm++2m-sde      x' = (s'/s) e^-h x + a' (1 - e^-2h) M + s' sqrt(1 - e^-2h) z (the same, appendix)
//   unipc            dpm++2m, and when the next m is known the step is done again with it (Zhao et al., "UniPC", 2023,
//                    algorithms 5 and 6, of order 2)
//   euler-ancestral  Euler's step to a lower level than k', and fresh noise up to k' (k-diffusion, sample_euler_ancestral;
//                    of flow matching ComfyUI's sample_euler_ancestral_RF)
//   lcm              x' = a' (c_out m + c_skip x) + s' z (Luo et al., "Latent Consistency Models", 2023, algorithm 3)
//
// All in the sample x that the denoiser sees. What is in diffusers a sample y = x / a, and scaled for the denoiser, is here
// the same sample, and its scales are in the tables.

#include "pipelines/sampler_tables.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/error.hpp"

namespace headroom {

LinearForm operator+(const LinearForm& a, const LinearForm& b) {
  LinearForm sum;
  for (std::size_t i = 0; i < sum.of.size(); ++i) sum.of[i] = a.of[i] + b.of[i];
  return sum;
}

LinearForm operator-(const LinearForm& a, const LinearForm& b) {
  LinearForm difference;
  for (std::size_t i = 0; i < difference.of.size(); ++i) difference.of[i] = a.of[i] - b.of[i];
  return difference;
}

LinearForm operator*(double factor, const LinearForm& a) {
  LinearForm product = a;
  for (double& coefficient : product.of) coefficient *= factor;
  return product;
}

LinearForm operator/(const LinearForm& a, double divisor) {
  LinearForm quotient = a;
  for (double& coefficient : quotient.of) coefficient /= divisor;
  return quotient;
}

bool SamplerTables::uses_state(std::size_t state) const {
  // A state that only itself reads is of no use, and neither are two that read each other.
  std::array<bool, LinearForm::kStates> used{true};
  for (std::size_t round = 0; round < LinearForm::kStates; ++round)
    for (std::size_t reader = 0; reader < LinearForm::kStates; ++reader)
      for (std::size_t read = 0; read < LinearForm::kStates; ++read)
        used[read] = used[read] || (used[reader] && !is_always(reader, read, 0));
  return used.at(state);
}

std::vector<double> SamplerTables::answers_in_sample() const {
  std::vector<double> weights(next.size());
  LinearForm in_sample = LinearForm::column(0);  // of the states behind a call, in the sample at the end
  for (std::size_t call = next.size(); call-- > 0;) {
    LinearForm before;
    for (std::size_t state = 0; state < LinearForm::kStates; ++state)
      before = before + in_sample.of[state] * next[call][state];
    weights[call] = before.of[LinearForm::kOutput];
    in_sample = before;
  }
  return weights;
}

bool SamplerTables::uses_noise() const {
  for (std::size_t state = 0; state < LinearForm::kStates; ++state)
    if (uses_state(state) && !is_always(state, LinearForm::kNoise, 0)) return true;
  return false;
}

bool SamplerTables::is_always(std::size_t state, std::size_t column, double value) const {
  return std::ranges::all_of(next, [&](const auto& forms) { return forms[state].of[column] == value; });
}

namespace {

constexpr LinearForm kSample = LinearForm::column(0);
constexpr LinearForm kSecond = LinearForm::column(1);
constexpr LinearForm kThird = LinearForm::column(2);
constexpr LinearForm kFourth = LinearForm::column(3);
constexpr LinearForm kOutput = LinearForm::column(LinearForm::kOutput);
constexpr LinearForm kNoise = LinearForm::column(LinearForm::kNoise);

/// e^-h of a step, also where it begins with noise alone or ends without any.
double decay(const NoiseStep& step) { return step.from.alpha * step.to.sigma / (step.to.alpha * step.from.sigma); }

/// h: how far a step goes in ln(alpha / sigma); infinite where it begins with noise alone or ends without any.
double log_distance(const NoiseStep& step) { return -std::log(decay(step)); }

class TableMaker {
 public:
  TableMaker(const NoiseSchedule& schedule, const SolverOptions& options)
      : schedule_(schedule), options_(options), steps_(schedule.steps) {}

  SamplerTables make(Sampler sampler) {
    tables_.noise_scale = schedule_.noise_scale;
    tables_.first = steps_.front().from;
    for (std::size_t i = 0; i < steps_.size(); ++i) add_step(sampler, i);
    return std::move(tables_);
  }

 private:
  [[nodiscard]] bool is_flow() const { return schedule_.prediction == Prediction::kFlow; }
  [[nodiscard]] bool is_last(std::size_t i) const { return i + 1 == steps_.size(); }
  [[nodiscard]] std::int64_t all_steps() const { return std::ssize(steps_) + schedule_.skipped; }

  /// m, the image that the denoiser's answer to a sample at this level stands for.
  [[nodiscard]] LinearForm estimate(const NoiseLevel& at, const LinearForm& sample = kSample,
                                    const LinearForm& answer = kOutput) const {
    switch (schedule_.prediction) {
      case Prediction::kEpsilon:
        return (sample - at.sigma * answer) / at.alpha;
      case Prediction::kV:
        return at.alpha * sample - at.sigma * answer;
      case Prediction::kFlow:
        return sample - at.sigma * answer;
    }
    fail("no such prediction");
  }

  void add(double timestep, const LinearForm& sample, const LinearForm& second = {}, const LinearForm& third = {},
           const LinearForm& fourth = {}) {
    tables_.timesteps.push_back(timestep);
    tables_.next.push_back({sample, second, third, fourth});
  }

  void add_step(Sampler sampler, std::size_t i) {
    switch (sampler) {
      case Sampler::kEuler:
        return add_euler(steps_[i]);
      case Sampler::kDdim:
        return is_flow() ? add_euler(steps_[i]) : add_ddim(steps_[i]);
      case Sampler::kHeun:
        return add_heun(i);
      case Sampler::kDpm2M:
        return add_dpm(i, /*is_stochastic=*/false);
      case Sampler::kDpm2MSde:
        return add_dpm(i, /*is_stochastic=*/true);
      case Sampler::kUniPC:
        return add_unipc(i);
      case Sampler::kPlms:
        return add_plms(i);
      case Sampler::kEulerAncestral:
        return is_flow() ? add_ancestral_flow(i) : add_ancestral(steps_[i]);
      case Sampler::kLcm:
        return add_lcm(i);
    }
  }

  // --- Euler and Heun, along the straight line of y against k ---

  [[nodiscard]] double scale(const NoiseLevel& at) const { return is_flow() ? 1 : at.alpha; }
  [[nodiscard]] double noise_ratio(const NoiseLevel& at) const { return at.sigma / scale(at); }
  /// d, of the sample that is at this level.
  [[nodiscard]] LinearForm slope(const NoiseLevel& at) const {
    return (kSample / scale(at) - estimate(at)) / noise_ratio(at);
  }

  void add_euler(const NoiseStep& step) {
    const double distance = noise_ratio(step.to) - noise_ratio(step.from);
    add(step.timestep, scale(step.to) * (kSample / scale(step.from) + distance * slope(step.from)));
  }

  /// The second state is y with half of the way that the first slope asks for.
  void add_heun(std::size_t i) {
    const NoiseStep& step = steps_[i];
    const double distance = noise_ratio(step.to) - noise_ratio(step.from);
    const LinearForm y = kSample / scale(step.from), d = slope(step.from);
    add(step.timestep, scale(step.to) * (y + distance * d), is_last(i) ? LinearForm{} : y + distance / 2 * d);
    if (!is_last(i)) add(steps_[i + 1].timestep, scale(step.to) * (kSecond + distance / 2 * slope(step.to)));
  }

  /// A step of DDIM from a sample, for which the denoiser has answered that.
  [[nodiscard]] LinearForm ddim_step(const NoiseStep& step, const LinearForm& sample, const LinearForm& answer) const {
    const LinearForm m = estimate(step.from, sample, answer);
    return step.to.alpha * m + step.to.sigma * ((sample - step.from.alpha * m) / step.from.sigma);
  }

  void add_ddim(const NoiseStep& step) { add(step.timestep, ddim_step(step, kSample, kOutput)); }

  void add_ancestral(const NoiseStep& step) {
    const double k = noise_ratio(step.from), to = noise_ratio(step.to);
    const double up = std::sqrt(to * to * (k * k - to * to) / (k * k)), down = std::sqrt(to * to - up * up);
    add(step.timestep, scale(step.to) * (kSample / scale(step.from) + (down - k) * slope(step.from) + up * kNoise));
  }

  void add_ancestral_flow(std::size_t i) {
    const NoiseStep& step = steps_[i];
    const LinearForm m = estimate(step.from);
    const double s = step.from.sigma, to = step.to.sigma, down = to * (1 + (to / s - 1) * options_.eta);
    const double c = (1 - to) / (1 - down);
    const double up = std::sqrt(std::max(0.0, to * to - down * down * c * c));
    add(step.timestep, c * (down / s * kSample + (1 - down / s) * m) + up * kNoise);
  }

  void add_lcm(std::size_t i) {
    const NoiseStep& step = steps_[i];
    LinearForm image = estimate(step.from);
    if (!is_flow()) {
      constexpr double kData = 0.5;  // the standard deviation that images are taken to have
      const double t = step.timestep * options_.timestep_scaling, square = t * t + kData * kData;
      image = t / std::sqrt(square) * image + kData * kData / square * kSample;
    }
    add(step.timestep, is_last(i) && !is_flow() ? image : step.to.alpha * image + step.to.sigma * kNoise);
  }

  // --- multistep ---

  /// The further states are the answers before, the latest first.
  void add_plms(std::size_t i) {
    const NoiseStep& step = steps_[i];
    if (i == 0) {
      add(step.timestep, ddim_step(step, kSample, kOutput), kOutput);
      if (is_last(i)) return;
      // The sample that the step began with is what made this one.
      const double of_sample = ddim_step(step, kSample, {}).of[0];
      const LinearForm before = (kSample - ddim_step(step, {}, kSecond)) / of_sample;
      add(steps_[1].timestep, ddim_step(step, before, (kOutput + kSecond) / 2), kSecond);
      return;
    }
    const LinearForm mean = i == 1   ? (3 * kOutput - kSecond) / 2
                            : i == 2 ? (23 * kOutput - 16 * kSecond + 5 * kThird) / 12
                                     : (55 * kOutput - 59 * kSecond + 37 * kThird - 9 * kFourth) / 24;
    add(step.timestep, ddim_step(step, kSample, mean), kOutput, kSecond, kThird);
  }

  // The second or third state is the m before.

  /// h over the h before; 0 where that was infinite.
  [[nodiscard]] double step_ratio(std::size_t i) const { return log_distance(steps_[i]) / log_distance(steps_[i - 1]); }

  void add_dpm(std::size_t i, bool is_stochastic) {
    const NoiseStep& step = steps_[i];
    const LinearForm m = estimate(step.from);
    const bool ends_low =
        options_.euler_at_final || (options_.lower_order_final && all_steps() < 15) || step.to.sigma == 0;
    const bool is_first_order = options_.order == 1 || i == 0 || (is_last(i) && ends_low);
    const LinearForm change = is_first_order ? LinearForm{} : step_ratio(i) * (m - kSecond);
    const double left = decay(step), h = log_distance(step);
    const double power = is_stochastic ? left * left : left;  // of the noise that is left
    const double exponent = is_stochastic ? 2 * h : h;
    const double of_change = is_first_order ? 0 : options_.uses_heun ? 1 - (1 - power) / exponent : (1 - power) / 2;
    LinearForm next = step.to.sigma / step.from.sigma * (is_stochastic ? left : 1) * kSample +
                      step.to.alpha * ((1 - power) * m + of_change * change);
    if (is_stochastic) next = next + step.to.sigma * std::sqrt(1 - power) * kNoise;
    add(step.timestep, next, m);
  }

  [[nodiscard]] std::int64_t unipc_order(std::size_t i) const {
    const auto left = static_cast<std::int64_t>(steps_.size() - i);
    // Without noise at the end h is infinite there, and no slope of m is known.
    const bool ends_low = options_.lower_order_final || steps_.back().to.sigma == 0;
    return std::min({options_.order, static_cast<std::int64_t>(i) + 1, ends_low ? left : options_.order});
  }

  /// What a step done again adds for the m at its end (`new_m`) and for the change of m before it (`change`).
  struct Correction {
    double of_new = 0;
    double of_change = 0;
    bool is_on = false;
  };
  [[nodiscard]] Correction correction(std::size_t i) const {
    const std::int64_t number = static_cast<std::int64_t>(i) + schedule_.skipped;
    const bool is_off = std::ranges::find(options_.disable_corrector, number) != options_.disable_corrector.end();
    if (is_last(i) || is_off) return {};
    const double u = -log_distance(steps_[i]), e = std::expm1(u), base = options_.uses_bh1 ? u : e;
    const double f = e / u - 1, b1 = f / base, b2 = (f / u - 0.5) * 2 / base;
    const double weight = -steps_[i].to.alpha * base;
    if (unipc_order(i) == 1) return {.of_new = weight / 2, .is_on = true};
    const double q = -1 / step_ratio(i);  // how far back the m before is, in h
    const double p1 = std::isinf(q) ? 0 : (b1 - b2) / (1 - q);
    return {.of_new = weight * (b1 - p1), .of_change = std::isinf(q) ? 0 : weight * p1 / q, .is_on = true};
  }

  /// The second state is this step done again but for the m at its end, the third the m of it.
  void add_unipc(std::size_t i) {
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

  const NoiseSchedule& schedule_;
  const SolverOptions& options_;
  const std::vector<NoiseStep>& steps_;
  SamplerTables tables_;
};

}  // namespace

SamplerTables make_sampler_tables(Sampler sampler, const NoiseSchedule& schedule, const SolverOptions& options) {
  HR_CHECK(!schedule.steps.empty());
  HR_CHECK(options.order == 1 || options.order == 2);
  return TableMaker(schedule, options).make(sampler);
}

}  // namespace headroom
