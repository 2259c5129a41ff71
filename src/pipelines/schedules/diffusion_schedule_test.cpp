#include "pipelines/schedules/diffusion_schedule.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace headroom {
namespace {

DiffusionSchedule stable_diffusion(TimestepSpacing spacing, DiffusionRules rules = DiffusionRules::kEuler) {
  return {.rules = rules,
          .beta_start = 0.00085,
          .beta_end = 0.012,
          .beta_schedule = BetaSchedule::kScaledLinear,
          .spacing = spacing};
}

double first_ratio(const DiffusionSchedule& schedule, double strength, std::int64_t steps) {
  const NoiseLevel level = schedule.schedule_from(strength, steps).steps.front().from;
  return level.sigma / level.alpha;
}

// For every spacing and number of steps, slightly more strength gives slightly more noise.
TEST(DiffusionSchedule, AStrengthIsANoiseLevel) {
  for (const TimestepSpacing spacing :
       {TimestepSpacing::kLinspace, TimestepSpacing::kLeading, TimestepSpacing::kTrailing})
    for (const DiffusionRules rules : {DiffusionRules::kEuler, DiffusionRules::kDdim, DiffusionRules::kLcm})
      for (const std::int64_t steps : {1, 2, 4}) {
        const DiffusionSchedule schedule = stable_diffusion(spacing, rules);
        double before = first_ratio(schedule, 0.004, steps);
        for (int i = 5; i <= 1000; ++i) {
          const double ratio = first_ratio(schedule, i / 1000.0, steps);
          EXPECT_GT(ratio, before) << i;
          EXPECT_LT(ratio, 1.2 * before + 0.01) << i;
          before = ratio;
        }
        EXPECT_NEAR(before, 14.6146, 1e-3);  // Stable Diffusion's last training step
        EXPECT_EQ(std::ssize(schedule.schedule_from(0.5, steps).steps), steps);
      }
}

// If the strength is a whole fraction of the steps, the result is as before: the last steps of a trailing schedule.
TEST(DiffusionSchedule, AStrengthIsTheRestOfATrailingSchedule) {
  for (const DiffusionRules rules : {DiffusionRules::kEuler, DiffusionRules::kDdim}) {
    const DiffusionSchedule schedule = stable_diffusion(TimestepSpacing::kTrailing, rules);
    for (const std::int64_t steps : {1, 2, 5}) {
      NoiseSchedule rest = schedule.schedule(2 * steps);
      rest.skip(steps);
      const NoiseSchedule from = schedule.schedule_from(0.5, steps);
      ASSERT_EQ(from.steps.size(), rest.steps.size());
      for (std::size_t i = 0; i < from.steps.size(); ++i) {
        EXPECT_EQ(from.steps[i].timestep, rest.steps[i].timestep);
        EXPECT_NEAR(from.steps[i].from.sigma, rest.steps[i].from.sigma, 1e-6);
        EXPECT_NEAR(from.steps[i].to.alpha, rest.steps[i].to.alpha, 1e-6);
      }
    }
  }
}

TEST(DiffusionSchedule, AStrengthIsKeptByLevelsThatAreSpacedAnew) {
  DiffusionSchedule schedule = stable_diffusion(TimestepSpacing::kLeading);
  const double plain = first_ratio(schedule, 0.37, 4);
  for (const auto kind : {Respacing::Kind::kKarras, Respacing::Kind::kExponential, Respacing::Kind::kBeta}) {
    schedule.respacing.kind = kind;
    EXPECT_NEAR(first_ratio(schedule, 0.37, 4), plain, 1e-9);
    EXPECT_NEAR(first_ratio(schedule, 0.37, 1), first_ratio(stable_diffusion(TimestepSpacing::kLeading), 0.37, 1),
                1e-9);
  }
}

// Pure noise has no finite ratio to an image.
TEST(DiffusionSchedule, AStrengthMayReachNoiseAlone) {
  DiffusionSchedule schedule = stable_diffusion(TimestepSpacing::kTrailing, DiffusionRules::kDdim);
  schedule.prediction = Prediction::kV;
  schedule.rescale_betas_zero_snr = true;
  const NoiseLevel first = schedule.schedule_from(1, 2).steps.front().from;
  EXPECT_EQ(first, (NoiseLevel{.alpha = 0, .sigma = 1}));
}

}  // namespace
}  // namespace headroom
