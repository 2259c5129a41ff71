#include "pipelines/schedules/diffusion_schedule.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>
#include <utility>

#include "base/error.hpp"

namespace headroom {
namespace {

double rounded(double value) { return static_cast<double>(static_cast<float>(value)); }

/// As numpy's linspace rounds them: a value at a half decides between two training steps.
std::vector<double> even_numbers(double first, double last, std::int64_t count) {
  std::vector<double> numbers;
  const double step = count == 1 ? 0 : (last - first) / static_cast<double>(count - 1);
  for (std::int64_t i = 0; i < count; ++i) numbers.push_back(first + static_cast<double>(i) * step);
  if (count > 1) numbers.back() = last;
  return numbers;
}

/// As torch.linspace in f32: from both ends to the middle, each by one fused multiply-add.
std::vector<double> even_floats(double first, double last, std::int64_t count) {
  const double begin = rounded(first), end = rounded(last);
  const double step = rounded(rounded(end - begin) / static_cast<double>(count - 1));
  std::vector<double> numbers;
  for (std::int64_t i = 0; i < count; ++i)
    numbers.push_back(rounded(i < count / 2 ? begin + step * static_cast<double>(i)
                                            : end - step * static_cast<double>(count - 1 - i)));
  return numbers;
}

std::vector<double> betas_of(const DiffusionSchedule& of) {
  std::vector<double> betas;
  if (of.beta_schedule == BetaSchedule::kLinear)
    betas = even_floats(of.beta_start, of.beta_end, of.train_timesteps);
  else if (of.beta_schedule == BetaSchedule::kScaledLinear) {
    betas = even_floats(std::sqrt(of.beta_start), std::sqrt(of.beta_end), of.train_timesteps);
    for (double& beta : betas) beta *= beta;
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

/// Cumulative products.
std::vector<double> running_products(const std::vector<double>& numbers) {
  std::vector<double> products(numbers.size());
  std::partial_sum(numbers.begin(), numbers.end(), products.begin(), std::multiplies<>());
  for (double& product : products) product = rounded(product);
  return products;
}

/// Alphas with a last value of 0 and an unchanged first one: algorithm 1 of Lin et al.
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

bool is_multistep(DiffusionRules rules) {
  return rules == DiffusionRules::kDpmSolver || rules == DiffusionRules::kSinglestep ||
         rules == DiffusionRules::kUniPC || rules == DiffusionRules::kDeis;
}

/// numpy.arange(start, 0, -stride): the quotient gives the count, and the difference of the first two values the
/// step.
std::vector<double> falling_numbers(double start, double stride) {
  const auto count = static_cast<std::int64_t>(std::ceil((0 - start) / -stride));
  const double step = (start - stride) - start;
  std::vector<double> numbers;
  for (std::int64_t i = 0; i < count; ++i) numbers.push_back(start + static_cast<double>(i) * step);
  return numbers;
}

/// Training steps in descending order, by the rules of the schedulers.
std::vector<double> timesteps_of(const DiffusionSchedule& of, std::int64_t steps, std::int64_t last_timestep) {
  const bool is_solver = is_multistep(of.rules);
  std::vector<double> timesteps;
  if (of.spacing == TimestepSpacing::kTrailing) {
    const double stride = static_cast<double>(of.train_timesteps) / static_cast<double>(steps);
    timesteps = falling_numbers(static_cast<double>(last_timestep), stride);
    for (double& timestep : timesteps) timestep = std::nearbyint(timestep) - 1;
    return timesteps;
  }
  if (of.spacing == TimestepSpacing::kLeading) {
    // For solvers, the last of one step more is left out, in place of the first.
    const std::int64_t ratio = is_solver ? last_timestep / (steps + 1) : of.train_timesteps / steps;
    for (std::int64_t i = 0; i < steps; ++i)
      timesteps.push_back(static_cast<double>((is_solver ? steps - i : steps - 1 - i) * ratio + of.steps_offset));
    return timesteps;
  }
  timesteps = even_numbers(0, static_cast<double>(last_timestep - 1), is_solver ? steps + 1 : steps);
  if (is_solver) timesteps.erase(timesteps.begin());
  std::ranges::reverse(timesteps);
  if (of.rules == DiffusionRules::kDpmSde) return timesteps;
  for (double& timestep : timesteps)
    timestep = of.rules == DiffusionRules::kEuler ? rounded(timestep) : std::nearbyint(timestep);
  return timesteps;
}

/// The table at a fractional index; clamped at its ends.
double interpolated(const std::vector<double>& table, double place) {
  const double within = std::clamp(place, 0.0, static_cast<double>(table.size() - 1));
  const auto i = static_cast<std::size_t>(within);
  if (i + 1 == table.size()) return table.back();
  return table[i] + (table[i + 1] - table[i]) * (within - static_cast<double>(i));
}

/// The fractional index in a table at which its logarithm is that of `value`: after the last entry that is not above
/// it, for a table that does not increase everywhere. Entries are compared in f32, where a level that is an entry
/// equals it.
double place_of(const std::vector<double>& logs, double value) {
  const double log = std::log(value), as_entry = rounded(log);
  const auto above = std::find_if(logs.rbegin(), logs.rend(), [&](double entry) { return entry <= as_entry; });
  const std::ptrdiff_t found = above == logs.rend() ? 0 : std::distance(above, logs.rend()) - 1;
  const auto low = static_cast<std::size_t>(std::min(found, std::ssize(logs) - 2));
  const double begin = logs[low], distance = rounded(begin - logs[low + 1]);
  const double along = distance == 0 ? 0 : std::clamp((begin - log) / distance, 0.0, 1.0);
  return (1 - along) * static_cast<double>(low) + along * static_cast<double>(low + 1);
}

NoiseLevel level_of_product(double product) { return {.alpha = std::sqrt(product), .sigma = std::sqrt(1 - product)}; }

/// Timestep -1, the possible last trailing timestep, counts from the end of the table, like a Python index.
NoiseLevel level_at(const std::vector<double>& products, double timestep) {
  if (timestep == -1) return level_of_product(products.back());
  if (timestep < 0 || timestep >= static_cast<double>(products.size()))
    fail("a sampler's step is at timestep {}, expected 0 to {}, those of the training", timestep, products.size() - 1);
  return level_of_product(products[static_cast<std::size_t>(timestep)]);
}

/// DDIM goes back by a fixed number of training steps, whatever the next timestep is. PLMS repeats its first step
/// from that many steps after the second timestep.
std::vector<NoiseStep> ddim_steps(const DiffusionSchedule& of, std::int64_t steps,
                                  const std::vector<double>& products) {
  const auto jump = static_cast<double>(of.train_timesteps / steps);  // an integer, as in diffusers
  const NoiseLevel end = of.set_alpha_to_one ? kNoNoise : level_at(products, 0);
  const auto before = [&](double timestep) { return timestep < jump ? end : level_at(products, timestep - jump); };
  std::vector<NoiseStep> result;
  for (const double timestep : timesteps_of(of, steps, of.train_timesteps)) {
    if (of.rules == DiffusionRules::kPndm && !result.empty())
      result.back().through = level_at(products, timestep + jump);
    result.push_back({.timestep = timestep, .from = level_at(products, timestep), .to = before(timestep)});
  }
  return result;
}

/// DDPM steps to the next timestep, and to the image where that is -1.
std::vector<NoiseStep> ddpm_steps(const DiffusionSchedule& of, std::int64_t steps,
                                  const std::vector<double>& products) {
  std::vector<NoiseStep> result;
  for (const double timestep : timesteps_of(of, steps, of.train_timesteps)) {
    const NoiseLevel level = level_at(products, timestep);
    if (!result.empty() && timestep >= 0) result.back().to = level;
    result.push_back({.timestep = timestep, .from = level, .to = kNoNoise});
  }
  return result;
}

/// A subset of the evenly spaced steps of the distillation.
std::vector<NoiseStep> distilled_steps(const DiffusionSchedule& of, std::int64_t steps,
                                       const std::vector<double>& products) {
  const bool is_tcd = of.rules == DiffusionRules::kTcd;
  if (steps > of.original_steps)
    fail_usage("the number of steps is {}, expected 1 to {}, for which the sampler {} was distilled", steps,
               of.original_steps, is_tcd ? "tcd" : "lcm");
  const std::int64_t jump = of.train_timesteps / of.original_steps;
  const double stride = static_cast<double>(of.original_steps) / static_cast<double>(steps);
  std::vector<NoiseStep> result;
  for (std::int64_t i = 0; i < steps; ++i) {
    const auto skipped = static_cast<std::int64_t>(static_cast<double>(i) * stride);
    const auto timestep = static_cast<double>((of.original_steps - skipped) * jump - 1);
    const NoiseLevel level = level_at(products, timestep);
    if (!result.empty()) result.back().to = level;
    result.push_back({.timestep = timestep, .from = level, .to = is_tcd ? level_at(products, 0) : kNoNoise});
  }
  for (std::size_t i = 0; is_tcd && i < result.size(); ++i) {
    const double next = i + 1 < result.size() ? result[i + 1].timestep : 0;
    result[i].through = level_at(products, std::floor(rounded(rounded(1 - of.eta) * next)));
  }
  return result;
}

/// Noise-to-image ratios by training step, in f32, and their logarithms.
struct RatioTable {
  explicit RatioTable(const std::vector<double>& products) {
    for (const double product : products) ratios.push_back(rounded(std::sqrt(rounded(rounded(1 - product) / product))));
    for (const double ratio : ratios) logs.push_back(rounded(std::log(ratio)));
  }
  /// The number of levels at the end of a decreasing table that are below a minimum of ln(alpha / sigma).
  [[nodiscard]] std::int64_t count_below(double least, const std::vector<double>& products) const {
    std::vector<double> rising;
    for (auto product = products.rbegin(); product != products.rend(); ++product)
      rising.push_back(rounded(rounded(std::log(rounded(std::sqrt(*product)))) -
                               rounded(std::log(rounded(std::sqrt(rounded(1 - *product)))))));
    return std::ranges::lower_bound(rising, rounded(least)) - rising.begin();
  }

  std::vector<double> ratios;
  std::vector<double> logs;
};

/// Steps over noise-to-image ratios, those of the training steps or spaced anew: of Euler's schedulers and the
/// multistep solvers.
NoiseSchedule ratio_schedule(const DiffusionSchedule& of, std::int64_t steps, const std::vector<double>& products) {
  NoiseSchedule schedule{.prediction = of.prediction, .steps = {}};
  const RatioTable table(products);
  const bool is_clipped = of.rules == DiffusionRules::kDpmSolver || of.rules == DiffusionRules::kSinglestep;
  const std::int64_t clipped = is_clipped ? table.count_below(of.lambda_min_clipped, products) : 0;
  if (clipped >= of.train_timesteps)
    fail("scheduler_config.json: lambda_min_clipped is {}, which leaves none of {} steps of training",
         of.lambda_min_clipped, of.train_timesteps);
  std::vector<double> timesteps = timesteps_of(of, steps, of.train_timesteps - clipped);
  std::vector<double> ratios;
  for (const double timestep : timesteps) ratios.push_back(interpolated(table.ratios, timestep));
  const bool is_solver = is_multistep(of.rules), is_respaced = of.respacing.kind != Respacing::Kind::kNone;
  if (is_respaced) {
    ratios = is_solver ? of.respacing.levels(table.ratios.back(), table.ratios.front(), steps)
                       : of.respacing.levels(ratios.front(), ratios.back(), steps);
    const bool is_rounded = of.respacing.kind == Respacing::Kind::kKarras &&
                            (of.rules != DiffusionRules::kDpmSolver || of.beta_schedule != BetaSchedule::kCosine);
    timesteps.clear();
    for (const double ratio : ratios) {
      const double timestep = place_of(table.logs, ratio);
      timesteps.push_back(!is_solver ? timestep : is_rounded ? std::nearbyint(timestep) : std::trunc(timestep));
    }
  }
  const bool repeats_last = is_respaced && (of.rules == DiffusionRules::kUniPC || of.rules == DiffusionRules::kDeis);
  const bool ends_with_noise = of.ends_at_least_noise || of.rules == DiffusionRules::kDeis;
  ratios.push_back(!ends_with_noise ? 0.0 : repeats_last ? ratios.back() : table.ratios.front());
  for (std::size_t i = 0; i < timesteps.size(); ++i) {
    schedule.steps.push_back({.timestep = timesteps[i],
                              .from = level_of_ratio(rounded(ratios[i])),
                              .to = level_of_ratio(rounded(ratios[i + 1]))});
    if (of.rules == DiffusionRules::kDpmSde && ratios[i + 1] > 0)
      schedule.steps.back().middle_timestep = place_of(table.logs, std::sqrt(ratios[i] * ratios[i + 1]));
  }
  if (!is_solver) {
    // Euler's schedulers have the sample x / alpha. They scale the noise for the largest level, and the result keeps
    // that scale.
    const NoiseLevel first = schedule.steps.front().from;
    const double most = rounded(*std::ranges::max_element(ratios));
    schedule.steps.back().to = {.alpha = 1, .sigma = rounded(ratios.back())};
    schedule.noise_scale = first.alpha * (of.spacing == TimestepSpacing::kLeading ? std::sqrt(most * most + 1) : most);
  }
  return schedule;
}

/// The numbers of the file that levels come from.
std::string cause_of(const DiffusionSchedule& of) {
  std::string cause = fmt::format("beta_start {} with beta_end {}", of.beta_start, of.beta_end);
  if (of.respacing.sigma_min) cause += fmt::format(" and sigma_min {}", *of.respacing.sigma_min);
  if (of.respacing.sigma_max) cause += fmt::format(" and sigma_max {}", *of.respacing.sigma_max);
  return cause;
}

}  // namespace

std::vector<double> DiffusionSchedule::alphas_cumprod() const {
  std::vector<double> alphas = betas_of(*this);
  for (double& alpha : alphas) alpha = rounded(1 - alpha);
  if (rescale_betas_zero_snr) alphas = with_zero_snr(alphas);
  std::vector<double> products = running_products(alphas);
  // An infinite noise-to-image ratio could not be interpolated.
  if (rescale_betas_zero_snr && (rules == DiffusionRules::kEuler || is_multistep(rules))) products.back() = 0x1p-24;
  return products;
}

NoiseSchedule DiffusionSchedule::schedule(std::int64_t steps) const {
  HR_CHECK(steps >= 1);
  if (steps > train_timesteps)
    fail_usage("the number of steps is {}, expected 1 to {}, those of the training", steps, train_timesteps);
  const std::vector<double> products = alphas_cumprod();
  NoiseSchedule schedule{.prediction = prediction, .steps = {}};
  switch (rules) {
    case DiffusionRules::kDdim:
    case DiffusionRules::kPndm:
      schedule.steps = ddim_steps(*this, steps, products);
      break;
    case DiffusionRules::kDdpm:
      schedule.steps = ddpm_steps(*this, steps, products);
      break;
    case DiffusionRules::kLcm:
    case DiffusionRules::kTcd:
      schedule.steps = distilled_steps(*this, steps, products);
      break;
    default:
      schedule = ratio_schedule(*this, steps, products);
      break;
  }
  check_levels(schedule, cause_of(*this));
  return schedule;
}

NoiseSchedule DiffusionSchedule::schedule_from(double strength, std::int64_t steps) const {
  HR_CHECK(steps >= 1);
  HR_CHECK(strength >= 0 && strength <= 1);
  const std::vector<double> products = alphas_cumprod();
  std::vector<double> timesteps;
  std::vector<NoiseLevel> levels;
  for (std::int64_t i = 0; i < steps; ++i) {
    const double left = static_cast<double>(steps - i) / static_cast<double>(steps);
    timesteps.push_back(std::max(static_cast<double>(train_timesteps) * strength * left - 1, 0.0));
    levels.push_back(level_of_product(interpolated(products, timesteps.back())));
  }
  if (respacing.kind != Respacing::Kind::kNone) {
    const RatioTable table(products);
    const auto ratio = [](const NoiseLevel& level) { return level.sigma / level.alpha; };
    const std::vector<double> ratios =
        Respacing{.kind = respacing.kind}.levels(ratio(levels.front()), ratio(levels.back()), steps);
    for (std::size_t i = 0; i < ratios.size(); ++i) {
      timesteps[i] = place_of(table.logs, ratios[i]);
      levels[i] = level_of_ratio(ratios[i]);
    }
  }
  const bool ends_with_noise =
      ends_at_least_noise || rules == DiffusionRules::kDeis || rules == DiffusionRules::kTcd ||
      ((rules == DiffusionRules::kDdim || rules == DiffusionRules::kPndm) && !set_alpha_to_one);
  levels.push_back(ends_with_noise ? level_of_product(products.front()) : kNoNoise);
  NoiseSchedule schedule{.prediction = prediction, .steps = {}};
  for (std::size_t i = 0; i < timesteps.size(); ++i)
    schedule.steps.push_back({.timestep = timesteps[i], .from = levels[i], .to = levels[i + 1]});
  check_levels(schedule, cause_of(*this));
  return schedule;
}

}  // namespace headroom
