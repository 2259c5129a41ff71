// Samplers as linear updates of a step from the level (a, s) to (a', s'), with the estimate m of the image:
//
//   euler, ddim      y' = y + (k' - k) d, d = (y - m) / k, where y = x / a and k = s / a; in flow matching y = x, k = s
//                    (Song et al., "Denoising Diffusion Implicit Models", 2021, equation 12 with eta = 0: the same)
//   plms             DDIM's step with a mean of the last predictions. The first step is repeated from its beginning
//                    with the mean of the predictions at both ends. Later steps use Adams-Bashforth: (3, -1)/2,
//                    (23, -16, 5)/12, (55, -59, 37, -9)/24 (Liu et al., "Pseudo Numerical Methods for Diffusion
//                    Models", 2022, F-PNDM without Runge-Kutta steps)
//   heun             d is replaced by the mean of the d at both ends (Karras et al., 2022, algorithm 1)
//   dpm++2m          x' = (s'/s) x + a' (1 - e^-h) M, h = ln(a'/s') - ln(a/s), M = m + (m - m_before) h / (2 h_before)
//                    (Lu et al., "DPM-Solver++", 2022, algorithm 2)
//   dpm++2m-sde      x' = (s'/s) e^-h x + a' (1 - e^-2h) M + s' sqrt(1 - e^-2h) z (the same, appendix)
//   unipc            dpm++2m; when the next m is known, the step is repeated with it (Zhao et al., "UniPC", 2023,
//                    algorithms 5 and 6, of order 2)
//   euler-ancestral  Euler's step to a lower level than k', then fresh noise up to k' (k-diffusion,
//                    sample_euler_ancestral; for flow matching ComfyUI's sample_euler_ancestral_RF)
//   lcm              x' = a' (c_out m + c_skip x) + s' z (Luo et al., "Latent Consistency Models", 2023, algorithm 3)
//   dpm++2s, -sde    the steps of dpm++2m and its SDE, but the second step of each pair starts where the first one
//                    started; order 3 does the same with three steps (Lu et al., "DPM-Solver++", 2022, algorithm 1,
//                    on a schedule's levels)
//   dpm++sde         half a step to sqrt(k k'), then the whole step from the beginning with the m there, both as in
//                    euler-ancestral; z are increments of one Brownian motion in k (k-diffusion, sample_dpmpp_sde)
//   deis             y' = y + C0 d + C1 d_before + ..., where C are integrals over k of Lagrange polynomials in ln k
//                    (Zhang and Chen, "Fast Sampling of Diffusion Models with Exponential Integrator", 2023, rho-AB)
//   lms              the same with polynomials in k, of up to four d (k-diffusion, sample_lms)
//   ddpm             x' = (a' b m + c s'^2 x) / s^2 + sqrt(v) z, c = a / a', b = 1 - c^2, v = b s'^2 / s^2
//                    (Ho et al., "Denoising Diffusion Probabilistic Models", 2020, equation 7)
//   tcd              ddim's step to a level of less noise than s', then fresh noise up to it (Zheng et al.,
//                    "Trajectory Consistency Distillation", 2024, algorithm 4)
//
// All formulas use the sample x that the denoiser reads. diffusers stores some samples as y = x / a and scales them for
// the denoiser. Here they are the same sample x, and the scales are in the tables.

#include "pipelines/schedules/sampler_formulas.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/error.hpp"
#include "pipelines/schedules/sampler_table_maker.hpp"

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
  // A state that only itself reads is unused, and so are two that only read each other.
  std::array<bool, LinearForm::kStates> used{true};
  for (std::size_t round = 0; round < LinearForm::kStates; ++round)
    for (std::size_t reader = 0; reader < LinearForm::kStates; ++reader)
      for (std::size_t read = 0; read < LinearForm::kStates; ++read)
        used[read] = used[read] || (used[reader] && !is_always(reader, read, 0));
  return used.at(state);
}

std::vector<double> SamplerTables::answers_in_sample() const {
  std::vector<double> weights(next.size());
  LinearForm in_sample = LinearForm::column(0);  // weights of the states after a call, in the final sample
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

SamplerTables TableMaker::make(Sampler sampler) {
  tables_.noise_scale = schedule_.noise_scale;
  tables_.first = steps_.front().from;
  for (std::size_t i = 0; i < steps_.size(); ++i) add_step(sampler, i);
  return std::move(tables_);
}

LinearForm TableMaker::estimate(const NoiseLevel& at, const LinearForm& sample, const LinearForm& answer) const {
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

void TableMaker::add(double timestep, const LinearForm& sample, const LinearForm& second, const LinearForm& third,
                     const LinearForm& fourth) {
  tables_.timesteps.push_back(timestep);
  tables_.next.push_back({sample, second, third, fourth});
}

void TableMaker::add_step(Sampler sampler, std::size_t i) {
  const NoiseStep& step = steps_[i];
  switch (sampler) {
    case Sampler::kEuler:
      return add_euler(step);
    case Sampler::kDdim:
      return is_flow() ? add_euler(step) : add_ddim(step);
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
      return is_flow() ? add_ancestral_flow(step) : add_ancestral(step);
    case Sampler::kLcm:
      return add_lcm(i);
    case Sampler::kDpm2S:
      return add_singlestep(i, /*is_stochastic=*/false);
    case Sampler::kDpm2SSde:
      return add_singlestep(i, /*is_stochastic=*/true);
    case Sampler::kDpmSde:
      return add_dpm_sde(step);
    case Sampler::kDeis:
      return add_deis(i);
    case Sampler::kLms:
      return add_lms(i);
    case Sampler::kDdpm:
      return add_ddpm(step);
    case Sampler::kTcd:
      return add_tcd(i);
  }
}

void TableMaker::add_euler(const NoiseStep& step) {
  const double distance = noise_ratio(step.to) - noise_ratio(step.from);
  add(step.timestep, scale(step.to) * (kSample / scale(step.from) + distance * slope(step.from)));
}

/// The second state is y after half of the step along the first slope.
void TableMaker::add_heun(std::size_t i) {
  const NoiseStep& step = steps_[i];
  const double distance = noise_ratio(step.to) - noise_ratio(step.from);
  const LinearForm y = kSample / scale(step.from), d = slope(step.from);
  add(step.timestep, scale(step.to) * (y + distance * d), is_last(i) ? LinearForm{} : y + distance / 2 * d);
  if (!is_last(i)) add(steps_[i + 1].timestep, scale(step.to) * (kSecond + distance / 2 * slope(step.to)));
}

/// A DDIM step from a sample, for which the denoiser predicted `answer`.
LinearForm TableMaker::ddim_step(const NoiseStep& step, const LinearForm& sample, const LinearForm& answer) const {
  const LinearForm m = estimate(step.from, sample, answer);
  return step.to.alpha * m + step.to.sigma * ((sample - step.from.alpha * m) / step.from.sigma);
}

namespace {

/// The noise that a step from the ratio k to a lower one adds, and the ratio that it first goes down to. A step to a
/// higher ratio adds none.
std::pair<double, double> ancestral_levels(double k, double to) {
  const double up = std::sqrt(std::max(0.0, to * to * (k * k - to * to) / (k * k)));
  return {up, std::sqrt(to * to - up * up)};
}

}  // namespace

void TableMaker::add_ancestral(const NoiseStep& step) {
  const double k = noise_ratio(step.from);
  const auto [up, down] = ancestral_levels(k, noise_ratio(step.to));
  add(step.timestep, scale(step.to) * (kSample / scale(step.from) + (down - k) * slope(step.from) + up * kNoise));
}

void TableMaker::add_ancestral_flow(const NoiseStep& step) {
  const LinearForm m = estimate(step.from);
  const double s = step.from.sigma, to = step.to.sigma, down = to * (1 + (to / s - 1) * options_.eta);
  const double c = (1 - to) / (1 - down);
  const double up = std::sqrt(std::max(0.0, to * to - down * down * c * c));
  add(step.timestep, c * (down / s * kSample + (1 - down / s) * m) + up * kNoise);
}

/// The second state is y at the beginning of the step, the third the noise of its first half.
void TableMaker::add_dpm_sde(const NoiseStep& step) {
  if (step.to.sigma == 0) return add_euler(step);
  const double k = noise_ratio(step.from), to = noise_ratio(step.to), middle = std::sqrt(k * to);
  const auto [half_up, half_down] = ancestral_levels(k, middle);
  const NoiseLevel half = level_of_ratio(middle);
  const LinearForm y = kSample / scale(step.from), m = estimate(step.from);
  add(step.timestep, scale(half) * (half_down / k * y + (1 - half_down / k) * m + half_up * kNoise), y, kNoise);
  const auto [up, down] = ancestral_levels(k, to);
  const double known = k == to ? 0 : std::sqrt(std::max(0.0, (k - middle) / (k - to)));  // of the whole step's noise
  const double fresh = std::sqrt(std::max(0.0, 1 - known * known));
  add(step.middle_timestep,
      scale(step.to) * (down / k * kSecond + (1 - down / k) * estimate(half) + up * (known * kThird + fresh * kNoise)));
}

void TableMaker::add_ddpm(const NoiseStep& step) {
  const double s = step.from.sigma * step.from.sigma, to = step.to.sigma * step.to.sigma;
  const double kept = step.from.alpha / step.to.alpha, beta = 1 - kept * kept;
  const double variance = step.timestep <= 0 ? 0 : options_.has_large_variance ? beta : to / s * beta;
  add(step.timestep, step.to.alpha * beta / s * estimate(step.from) + kept * to / s * kSample +
                         std::sqrt(std::max(0.0, variance)) * kNoise);
}

void TableMaker::add_lcm(std::size_t i) {
  const NoiseStep& step = steps_[i];
  LinearForm image = estimate(step.from);
  if (!is_flow()) {
    constexpr double kData = 0.5;  // the assumed standard deviation of images
    const double t = step.timestep * options_.timestep_scaling, square = t * t + kData * kData;
    image = t / std::sqrt(square) * image + kData * kData / square * kSample;
  }
  add(step.timestep, is_last(i) && !is_flow() ? image : step.to.alpha * image + step.to.sigma * kNoise);
}

void TableMaker::add_tcd(std::size_t i) {
  const NoiseStep& step = steps_[i];
  const NoiseLevel down = step.through.value_or(step.to);
  const LinearForm m = estimate(step.from);
  const LinearForm image = down.alpha * m + down.sigma * ((kSample - step.from.alpha * m) / step.from.sigma);
  if (is_last(i) || down == step.to) return add(step.timestep, image);
  const double more = step.to.alpha / down.alpha;
  const double up = std::sqrt(std::max(0.0, step.to.sigma * step.to.sigma - more * more * down.sigma * down.sigma));
  add(step.timestep, more * image + up * kNoise);
}

SamplerTables make_sampler_tables(Sampler sampler, const NoiseSchedule& schedule, const SolverOptions& options) {
  HR_CHECK(!schedule.steps.empty());
  HR_CHECK(options.order >= 1 && options.order <= 3);
  const bool is_flow = schedule.prediction == Prediction::kFlow;
  if (is_flow && (sampler == Sampler::kDpmSde || sampler == Sampler::kDdpm))
    fail_usage("sampler={} is for levels of diffusion, and this model's are of flow matching", to_string(sampler));
  return TableMaker(schedule, options).make(sampler);
}

}  // namespace headroom
