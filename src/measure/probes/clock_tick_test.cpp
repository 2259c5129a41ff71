#include "measure/probes/clock_tick.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

namespace headroom {
namespace {

using Processes = std::vector<std::vector<double>>;

/// Times measured by a clock with resolution `tick`, of `runs` runs each.
std::vector<double> shown(const std::vector<double>& times, double tick, int runs = 1) {
  std::vector<double> seen;
  for (const double ms : times) seen.push_back(std::round(runs * ms / tick) * tick / runs);
  return seen;
}

std::vector<double> noisy(std::uint64_t seed, double spread) {
  std::mt19937_64 engine(seed);
  std::normal_distribution<double> normal;
  std::vector<double> times(20);
  for (double& ms : times) ms = 3 * std::exp(spread * normal(engine));
  return times;
}

TEST(ClockTick, IsTheStepOfACoarseClock) {
  for (const double tick : {0.1, 0.0625, 1.0 / 3, 0.5})
    EXPECT_NEAR(clock_tick(Processes{shown(noisy(1, 0.2), tick)}, Processes{shown(noisy(2, 0.2), tick)}).value(), tick,
                1e-9);
  EXPECT_NEAR(clock_tick(Processes{shown(noisy(3, 0.1), 0.7, 7)}, Processes{shown(noisy(4, 0.1), 0.7, 7)}).value(), 0.1,
              1e-9);
}

TEST(ClockTick, IsThatOfTheDifferences) {
  std::vector<double> moved = shown(noisy(5, 0.2), 0.25);
  for (double& ms : moved) ms += 0.0371;
  EXPECT_NEAR(clock_tick(Processes{moved}, Processes{moved}).value(), 0.25, 1e-9);
}

TEST(ClockTick, IsNoneOfAFineClock) {
  EXPECT_EQ(clock_tick(Processes{noisy(6, 0.01)}, Processes{noisy(7, 0.01)}), 0);
  EXPECT_EQ(clock_tick(Processes{shown(noisy(8, 1e-4), 1e-3)}, Processes{shown(noisy(9, 1e-4), 1e-3)}),
            0);  // a resolution of 0.03%
  EXPECT_EQ(clock_tick(Processes{{1}, {2}, {3}}, Processes{{1}, {2}, {3}}), 0) << "processes of one trial share none";
}

TEST(ClockTick, IsUnknownOfEqualTrials) {
  EXPECT_FALSE(clock_tick(Processes{{2, 2, 2}}, Processes{{2, 2}}).has_value());
  EXPECT_FALSE(clock_tick(Processes{{2, 2, 2 + 1e-9}}, Processes{{2, 2}}).has_value());
  EXPECT_EQ(clock_tick(Processes{{2}}, Processes{{2}}), 0);
}

}  // namespace
}  // namespace headroom
