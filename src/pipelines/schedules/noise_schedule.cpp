#include "pipelines/schedules/noise_schedule.hpp"

#include <cmath>

#include "base/error.hpp"

namespace headroom {

NoiseLevel level_of_ratio(double ratio) {
  const double alpha = 1 / std::sqrt(ratio * ratio + 1);
  return {.alpha = alpha, .sigma = ratio * alpha};
}

void check_levels(const NoiseSchedule& schedule, std::string_view cause) {
  constexpr double kRounding = 1e-6;
  for (std::size_t i = 0; i < schedule.steps.size(); ++i) {
    const NoiseStep& step = schedule.steps[i];
    const double sigma = step.from.sigma;
    if (!(sigma > 0 && sigma <= 1 + kRounding))
      fail("scheduler_config.json: {} makes a noise level of {} in step {}, expected more than 0 and at most 1", cause,
           sigma, i + 1);
    if (schedule.prediction == Prediction::kEpsilon && !(step.from.alpha > 0))
      fail("scheduler_config.json: {} leaves no image in step {}, where a prediction of the noise says nothing", cause,
           i + 1);
    if (!std::isfinite(step.timestep) || !std::isfinite(step.middle_timestep))
      fail("scheduler_config.json: {} makes levels between which step {} has no timestep", cause, i + 1);
  }
}

}  // namespace headroom
