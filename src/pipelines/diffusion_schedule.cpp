#include "pipelines/diffusion_schedule.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>
#include <utility>

#include "base/error.hpp"

namespace headroom {
namespace {

double rounded(double value) { return static_cast<double>(static_cast<float>(value)); }

/// As numpy's linspace rounds them: whether one lies on a half decides which step of training it is.
std::vector<double> even_numbers(double first, double last, std::int64_t count) {
  std::vector<double> numbers;
  const double step = count == 1 ? 0 : (last - first) / static_cast<double>(count - 1);
  for (std::int64_t i = 0; i < count; ++i) numbers.push_back(first + static_cast<double>(i) * step);
  if (count > 1) numbers.back() = last;
  return numbers;
}

std::vector<double> betas_of(const DiffusionSchedule& of) {
  std::vector<double> betas;
  if (of.beta_schedule == BetaSchedule::kLinear)
    betas = even_numbers(of.beta_start, of.beta_end, of.train_timesteps);
  else if (of.beta_schedule == BetaSchedule::kScaledLinear) {
    betas = even_numbers(std::sqrt(of.beta_start), std::sqrt(of.beta_end), of.train_timesteps);
    for (double& beta : betas) beta = rounded(beta) * rounded(beta);
  } else {
    constexpr double kMost = 0.999;
    const auto alpha_bar = [&](std::int64_t i) {
      const double t = static_cast<double>(i) / static_cast<double>(of.train_timesteps);
      const double cosine = std::cos((t + 0.008) / 1.008 * std::numbers::pi / 2);
      return cosine * cosine;
    };
    for (std::int64_t i = 0; i < of.train_timesteps; ++i)
      betas.push_back(std::min(1 - alpha_bar(i + 1) / alpha_bar(i), kMost));
  }
  for (double& beta : betas) beta = rounded(beta);
  return betas;
}

/// Products of the numbers up to each.
std::vector<double> running_products(const std::vector<double>& numbers) {
  std::vector<double> products(numbers.size());
  std::partial_sum(numbers.begin(), numbers.end(), products.begin(), std::multiplies<>());
  for (double& product : products) product = rounded(product);
  return products;
}

/// Alphas of which the last is 0 and the first as before: algorithm 1 of Lin et al.
std::vector<double> with_zero_snr(const std::vector<double>& alphas) {
  std::vector<double> roots = running_products(alphas);
  for (double& root : roots) root = rounded(std::sqrt(root));
  const double first = roots.front(), last = roots.back();
  const double scale = rounded(first / rounded(first - last));
  for (double& root : roots) root = rounded(rounded(root - last) * scale);
  std::vector<double> rescaled;
  double before = 1;
  for (const double root : roots) {
    const double bar = rounded(root * root);
    const double beta = rounded(1 - rounded(bar / before));
    rescaled.push_back(rounded(1 - beta));
    before = bar;
  }
  return rescaled;
}

/// Steps of training, fallen, by the rules of the schedulers.
std::vector<double> timesteps_of(const DiffusionSchedule& of, std::int64_t steps, std::int64_t last_timestep) {
  const bool is_multistep = of.rules == DiffusionRules::kDpmSolver || of.rules == DiffusionRules::kUniPC;
  const auto train = static_cast<double>(of.train_timesteps), count = static_cast<double>(steps);
  std::vector<double> timesteps;
  if (of.spacing == TimestepSpacing::kTrailing) {
    for (std::int64_t i = 0; i < steps; ++i)
      timesteps.push_back(
          std::nearbyint(static_cast<double>(last_timestep) - static_cast<double>(i) * (train / count)) - 1);
    return timesteps;
  }
  if (of.spacing == TimestepSpacing::kLeading) {
    // Of these two the last of one step more is left out, in place of the first.
    const std::int64_t ratio = is_multistep ? last_timestep / (steps + 1) : of.train_timesteps / steps;
    for (std::int64_t i = 0; i < steps; ++i)
      timesteps.push_back(static_cast<double>((is_multistep ? steps - i : steps - 1 - i) * ratio + of.steps_offset));
    return timesteps;
  }
  timesteps = even_numbers(0, static_cast<double>(last_timestep - 1), is_multistep ? steps + 1 : steps);
  if (is_multistep) timesteps.erase(timesteps.begin());
  std::ranges::reverse(timesteps);
  for (double& timestep : timesteps)
    timestep = of.rules == DiffusionRules::kEuler ? rounded(timestep) : std::nearbyint(timestep);
  return timesteps;
}

double ratio_of(double alpha_cumprod) { return std::sqrt((1 - alpha_cumprod) / alpha_cumprod); }

/// The table at a place between its entries.
double interpolated(const std::vector<double>& table, double place) {
  const double low = std::clamp(std::floor(place), 0.0, static_cast<double>(table.size() - 1));
  const auto i = static_cast<std::size_t>(low);
  if (i + 1 == table.size()) return table.back();
  return table[i] + (table[i + 1] - table[i]) * (place - low);
}

/// The place in a rising table where its logarithm is that of `value`, between entries.
double place_of(const std::vector<double>& table, double value) {
  const auto above = std::ranges::upper_bound(table, value) - table.begin();
  const auto low = static_cast<std::size_t>(std::clamp<std::ptrdiff_t>(above - 1, 0, std::ssize(table) - 2));
  const double begin = std::log(table[low]), end = std::log(table[low + 1]);
  return static_cast<double>(low) + std::clamp((std::log(value) - begin) / (end - begin), 0.0, 1.0);
}

NoiseLevel level_at(const std::vector<double>& products, double timestep) {
  if (timestep < 0 || timestep >= static_cast<double>(products.size()))
    fail("a sampler's step is at timestep {}, expected 0 to {}, those of the training", timestep, products.size() - 1);
  const double product = products[static_cast<std::size_t>(timestep)];
  return {.alpha = std::sqrt(product), .sigma = std::sqrt(1 - product)};
}

/// DDIM goes to so many steps of training before, whatever the next timestep is.
std::vector<NoiseStep> ddim_steps(const DiffusionSchedule& of, std::int64_t steps,
                                  const std::vector<double>& products) {
  std::vector<NoiseStep> result;
  const std::int64_t jump = of.train_timesteps / steps;  // whole, as diffusers has it
  const NoiseLevel end = of.set_alpha_to_one ? kNoNoise : level_at(products, 0);
  for (const double timestep : timesteps_of(of, steps, of.train_timesteps))
    result.push_back(
        {.timestep = timestep,
         .from = level_at(products, timestep),
         .to = timestep < static_cast<double>(jump) ? end : level_at(products, timestep - static_cast<double>(jump))});
  return result;
}

/// Some of the steps of the distillation, which were even.
std::vector<NoiseStep> lcm_steps(const DiffusionSchedule& of, std::int64_t steps, const std::vector<double>& products) {
  if (steps > of.original_steps)
    fail_usage("the number of steps is {}, expected 1 to {}, for which the sampler lcm was distilled", steps,
               of.original_steps);
  const std::int64_t jump = of.train_timesteps / of.original_steps;
  std::vector<NoiseStep> result;
  for (std::int64_t i = 0; i < steps; ++i) {
    const std::int64_t skipped = i * of.original_steps / steps;
    const auto timestep = static_cast<double>((of.original_steps - skipped) * jump - 1);
    const NoiseLevel level = level_at(products, timestep);
    if (!result.empty()) result.back().to = level;
    result.push_back({.timestep = timestep, .from = level, .to = kNoNoise});
  }
  return result;
}

}  // namespace

NoiseLevel level_of_ratio(double ratio) {
  const double alpha = 1 / std::sqrt(ratio * ratio + 1);
  return {.alpha = alpha, .sigma = ratio * alpha};
}

std::vector<double> DiffusionSchedule::alphas_cumprod() const {
  std::vector<double> alphas = betas_of(*this);
  for (double& alpha : alphas) alpha = rounded(1 - alpha);
  if (rescale_betas_zero_snr) alphas = with_zero_snr(alphas);
  std::vector<double> products = running_products(alphas);
  // A ratio of noise to image that is infinite could not be interpolated.
  if (rescale_betas_zero_snr && rules != DiffusionRules::kDdim && rules != DiffusionRules::kLcm)
    products.back() = 0x1p-24;
  return products;
}

NoiseSchedule DiffusionSchedule::schedule(std::int64_t steps) const {
  HR_CHECK(steps >= 1);
  if (steps > train_timesteps)
    fail_usage("the number of steps is {}, expected 1 to {}, those of the training", steps, train_timesteps);
  const std::vector<double> products = alphas_cumprod();
  NoiseSchedule schedule{.prediction = prediction, .steps = {}};
  if (rules == DiffusionRules::kDdim || rules == DiffusionRules::kLcm) {
    schedule.steps =
        rules == DiffusionRules::kDdim ? ddim_steps(*this, steps, products) : lcm_steps(*this, steps, products);
    return schedule;
  }

  std::vector<double> table;  // the ratio of noise to image by step of training
  for (const double product : products) table.push_back(ratio_of(product));
  const auto clipped = std::ranges::count_if(table, [&](double ratio) {
    return rules == DiffusionRules::kDpmSolver && -std::log(ratio) < lambda_min_clipped;
  });
  std::vector<double> timesteps = timesteps_of(*this, steps, train_timesteps - clipped);
  std::vector<double> ratios;
  for (const double timestep : timesteps) ratios.push_back(interpolated(table, timestep));
  const bool is_whole = rules != DiffusionRules::kEuler;
  if (respacing.kind != Respacing::Kind::kNone) {
    ratios = is_whole ? respacing.levels(table.back(), table.front(), steps)
                      : respacing.levels(ratios.front(), ratios.back(), steps);
    for (std::size_t i = 0; i < ratios.size(); ++i) {
      timesteps[i] = place_of(table, ratios[i]);
      const bool is_rounded = respacing.kind == Respacing::Kind::kKarras &&
                              (rules == DiffusionRules::kUniPC || beta_schedule != BetaSchedule::kCosine);
      if (is_whole) timesteps[i] = is_rounded ? std::nearbyint(timesteps[i]) : std::trunc(timesteps[i]);
    }
  }
  const bool repeats_last = rules == DiffusionRules::kUniPC && respacing.kind != Respacing::Kind::kNone;
  ratios.push_back(!ends_at_least_noise ? 0.0 : repeats_last ? ratios.back() : table.front());
  for (std::size_t i = 0; i < timesteps.size(); ++i)
    schedule.steps.push_back({.timestep = timesteps[i],
                              .from = level_of_ratio(rounded(ratios[i])),
                              .to = level_of_ratio(rounded(ratios[i + 1]))});
  if (rules == DiffusionRules::kEuler) {
    // Euler's schedulers have the sample x / alpha. They scale the noise for that, and that is what they end with.
    schedule.steps.back().to = {.alpha = 1, .sigma = rounded(ratios.back())};
    if (spacing != TimestepSpacing::kLeading) schedule.noise_scale = schedule.steps.front().from.sigma;
  }
  return schedule;
}

}  // namespace headroom
