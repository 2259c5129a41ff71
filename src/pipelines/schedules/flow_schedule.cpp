#include "pipelines/schedules/flow_schedule.hpp"

#include <cmath>

#include "base/error.hpp"

namespace headroom {
namespace {

/// UniPCMultistepScheduler's first level, 1 - 1e-6, as stored in f32: the logarithm of 1 - sigma depends on it.
constexpr double kUniPCFirst = 0.999999F;

// Sums and products are rounded as in diffusers: with integer timesteps, the last bit may decide on one.

double shifted_by_tokens(double sigma, double m) { return m / (m + (1.0 / sigma - 1.0)); }
double shifted(double sigma, double shift) { return shift * sigma / (1 + (shift - 1) * sigma); }

/// The levels before the shift; `own_shift` is the shift that the scheduler applied to its own ends.
std::vector<double> unshifted(FlowSpacing spacing, std::int64_t steps, double train_timesteps, double own_shift) {
  const double least = 1 / train_timesteps, stride = (least - 1) / static_cast<double>(steps);
  std::vector<double> sigmas;
  for (std::int64_t i = 0; i < steps; ++i) {
    const double along = static_cast<double>(i) / static_cast<double>(steps);
    switch (spacing) {
      case FlowSpacing::kEven:
        sigmas.push_back(1.0 - along);
        break;
      case FlowSpacing::kOwn: {
        const double inclusive = steps == 1 ? 0 : static_cast<double>(i) / static_cast<double>(steps - 1);
        sigmas.push_back(1 + inclusive * (shifted(least, own_shift) - 1));
        break;
      }
      case FlowSpacing::kDpmSolver:
        sigmas.push_back(1 - (i == 0 ? least : 1 + static_cast<double>(steps - i) * stride));
        break;
      case FlowSpacing::kUniPC:
        sigmas.push_back(1 + static_cast<double>(i) * stride);
        break;
    }
  }
  return sigmas;
}

}  // namespace

double FlowSchedule::dynamic_shift(std::int64_t image_tokens, std::int64_t steps) const {
  if (is_by_steps) {
    const auto tokens = static_cast<double>(image_tokens);
    const double at_200_steps = 0.00016927 * tokens + 0.45666666, at_10_steps = 8.73809524e-05 * tokens + 1.89833333;
    if (image_tokens > 4300) return at_200_steps;
    const double slope = (at_200_steps - at_10_steps) / 190.0;
    return slope * static_cast<double>(steps) + (at_200_steps - 200.0 * slope);
  }
  const double slope = (max_shift - base_shift) / static_cast<double>(max_tokens - base_tokens);
  return base_shift + slope * static_cast<double>(image_tokens - base_tokens);
}

double FlowSchedule::shift_at(std::int64_t image_tokens, std::int64_t steps) const {
  if (!use_dynamic_shifting) return shift;
  const double mu = dynamic_shift(image_tokens, steps);
  return is_linear ? mu : std::exp(mu);
}

std::vector<double> FlowSchedule::sigmas(std::int64_t steps, std::int64_t image_tokens) const {
  HR_CHECK(steps >= 1);
  const double m = shift_at(image_tokens, steps);
  std::vector<double> sigmas = unshifted(spacing, steps, train_timesteps, use_dynamic_shifting ? 1 : shift);
  for (double& sigma : sigmas) sigma = use_dynamic_shifting ? shifted_by_tokens(sigma, m) : shifted(sigma, m);
  if (shift_terminal && sigmas.back() < 1) {
    const double scale = (1 - sigmas.back()) / (1 - *shift_terminal);
    for (double& sigma : sigmas) sigma = 1 - (1 - sigma) / scale;
  }
  if (respacing.kind != Respacing::Kind::kNone) sigmas = respacing.levels(sigmas.front(), sigmas.back(), steps);
  if (spacing == FlowSpacing::kUniPC && sigmas.front() > kUniPCFirst) sigmas.front() = kUniPCFirst;
  sigmas.push_back(ends_at_last ? sigmas.back() : 0.0);
  return sigmas;
}

NoiseSchedule FlowSchedule::schedule(std::int64_t steps, std::int64_t image_tokens) const {
  const std::vector<double> levels = sigmas(steps, image_tokens);
  NoiseSchedule schedule{.prediction = Prediction::kFlow, .steps = {}};
  // These two schedulers store timesteps as integers, and models are used with those.
  const bool is_whole = spacing == FlowSpacing::kDpmSolver || spacing == FlowSpacing::kUniPC;
  for (std::size_t i = 0; i + 1 < levels.size(); ++i) {
    const double timestep = levels[i] * train_timesteps;
    schedule.steps.push_back({.timestep = is_whole ? std::trunc(timestep) : timestep,
                              .from = level_of_flow(levels[i]),
                              .to = level_of_flow(levels[i + 1])});
  }
  check_levels(schedule, fmt::format("a shift of {}", shift_at(image_tokens, steps)));
  return schedule;
}

}  // namespace headroom
