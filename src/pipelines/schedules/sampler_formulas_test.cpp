// Tables compared with the samplers' formulas as in their papers and in diffusers, in double precision. Levels are
// those of diffusers, and cases in which h is infinite or a level is pure noise.

#include "pipelines/schedules/sampler_formulas.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "base/test_paths.hpp"
#include "base/test_util.hpp"
#include "io/safetensors.hpp"
#include "pipelines/schedules/flow_schedule.hpp"

namespace headroom {
namespace {

constexpr double kTableError = 1e-6;  // relative

/// Levels of the goldens: sigmas, each but the last with a timestep.
NoiseSchedule schedule_of(const std::string& key, Prediction prediction) {
  const SafetensorsFile golden =
      SafetensorsFile::open(source_dir(kSourceDir) / "tests/goldens/samplers/expected.safetensors");
  const HostTensor sigmas = golden.read(key + ".sigmas");
  NoiseSchedule schedule{.prediction = prediction, .steps = {}};
  const auto level = [&](std::int64_t i) {
    return prediction == Prediction::kFlow ? level_of_flow(sigmas.at(i)) : level_of_ratio(sigmas.at(i));
  };
  for (std::int64_t i = 0; i + 1 < sigmas.numel(); ++i)
    schedule.steps.push_back({.timestep = static_cast<double>(i), .from = level(i), .to = level(i + 1)});
  return schedule;
}

/// A scalar sample, a model that is a formula, and given noise for each call.
double model(double x) { return std::tanh(0.8 * x + 0.3) - 0.1 * x; }
double noise_of(std::size_t call) { return std::sin(3.0 + static_cast<double>(call)); }

double run(const SamplerTables& tables, double x) {
  std::array<double, LinearForm::kColumns> columns{x};
  for (std::size_t call = 0; call < tables.next.size(); ++call) {
    columns[LinearForm::kOutput] = model(columns[0]);
    columns[LinearForm::kNoise] = noise_of(call);
    std::array<double, LinearForm::kStates> next{};
    for (std::size_t state = 0; state < next.size(); ++state)
      for (std::size_t k = 0; k < columns.size(); ++k) next[state] += tables.next[call][state].of[k] * columns[k];
    std::ranges::copy(next, columns.begin());
  }
  return columns[0];
}

/// m and the noise that a prediction implies, for each prediction type.
double image_of(Prediction prediction, const NoiseLevel& at, double x, double output) {
  if (prediction == Prediction::kEpsilon) return (x - at.sigma * output) / at.alpha;
  return prediction == Prediction::kV ? at.alpha * x - at.sigma * output : x - at.sigma * output;
}
double lambda(const NoiseLevel& at) { return std::log(at.alpha) - std::log(at.sigma); }

using Formula = std::function<double(const NoiseSchedule&, double x)>;

double euler(const NoiseSchedule& schedule, double x) {
  for (const NoiseStep& step : schedule.steps) {
    const double m = image_of(schedule.prediction, step.from, x, model(x));
    const double noise = (x - step.from.alpha * m) / step.from.sigma;
    x = step.to.alpha * m + step.to.sigma * noise;
  }
  return x;
}

double heun(const NoiseSchedule& schedule, double x) {
  const bool is_flow = schedule.prediction == Prediction::kFlow;
  const auto scale = [&](const NoiseLevel& at) { return is_flow ? 1 : at.alpha; };
  const auto slope = [&](const NoiseLevel& at, double sample) {
    const double m = image_of(schedule.prediction, at, sample, model(sample));
    return (sample / scale(at) - m) / (at.sigma / scale(at));
  };
  for (const NoiseStep& step : schedule.steps) {
    const double y = x / scale(step.from);
    const double distance = step.to.sigma / scale(step.to) - step.from.sigma / scale(step.from);
    const double first = slope(step.from, x);
    x = scale(step.to) * (y + distance * first);
    if (step.to.sigma == 0) continue;
    x = scale(step.to) * (y + distance * (first + slope(step.to, x)) / 2);
  }
  return x;
}

/// Algorithm 2 of DPM-Solver++, with a last step of order 1; with noise, its SDE.
double dpm(const NoiseSchedule& schedule, double x, bool is_stochastic) {
  double before = 0;
  for (std::size_t i = 0; i < schedule.steps.size(); ++i) {
    const NoiseStep& step = schedule.steps[i];
    const double m = image_of(schedule.prediction, step.from, x, model(x));
    const bool is_last = step.to.sigma == 0;
    double estimate = m;
    const double h = is_last ? 0 : lambda(step.to) - lambda(step.from);
    if (i > 0 && !is_last) {
      const double r = (lambda(step.from) - lambda(schedule.steps[i - 1].from)) / h;
      estimate = (1 + 1 / (2 * r)) * m - 1 / (2 * r) * before;
    }
    if (is_last)
      x = m;
    else if (is_stochastic)
      x = step.to.sigma / step.from.sigma * std::exp(-h) * x + step.to.alpha * (1 - std::exp(-2 * h)) * estimate +
          step.to.sigma * std::sqrt(1 - std::exp(-2 * h)) * noise_of(i);
    else
      x = step.to.sigma / step.from.sigma * x - step.to.alpha * std::expm1(-h) * estimate;
    before = m;
  }
  return x;
}

/// UniPC of order 2 with B(h) = e^-h - 1, its linear system solved by Cramer's rule.
double unipc(const NoiseSchedule& schedule, double x) {
  std::vector<double> images;
  double last = 0;  // the sample before the last predictor step
  for (std::size_t i = 0; i < schedule.steps.size(); ++i) {
    const NoiseStep& step = schedule.steps[i];
    const double m = image_of(schedule.prediction, step.from, x, model(x));
    if (i > 0) {
      const NoiseStep& done = schedule.steps[i - 1];
      const double u = lambda(done.from) - lambda(done.to), e = std::expm1(u);
      const double first = (e / u - 1) / e, second = ((e / u - 1) / u - 0.5) * 2 / e;
      double correction = 0.5 * (m - images[i - 1]);
      if (i > 1) {
        const double q = (lambda(schedule.steps[i - 2].from) - lambda(done.from)) / -u;
        const double determinant = 1 - q;  // of [1 1; q 1]
        const double p1 = (first - second) / determinant, p2 = (second - q * first) / determinant;
        correction = p1 * (images[i - 2] - images[i - 1]) / q + p2 * (m - images[i - 1]);
      }
      x = done.to.sigma / done.from.sigma * last - done.to.alpha * e * (images[i - 1] + correction);
    }
    images.push_back(m);
    last = x;
    if (step.to.sigma == 0) return m;
    const double h = lambda(step.to) - lambda(step.from);
    double estimate = m;
    if (i > 0) estimate += 0.5 * (m - images[i - 1]) * h / (lambda(step.from) - lambda(schedule.steps[i - 1].from));
    x = step.to.sigma / step.from.sigma * x - step.to.alpha * std::expm1(-h) * estimate;
  }
  return x;
}

double ancestral(const NoiseSchedule& schedule, double x) {
  for (std::size_t i = 0; i < schedule.steps.size(); ++i) {
    const NoiseStep& step = schedule.steps[i];
    const double m = image_of(schedule.prediction, step.from, x, model(x));
    if (schedule.prediction == Prediction::kFlow) {
      const double s = step.from.sigma, to = step.to.sigma, down = to * to / s;
      const double c = (1 - to) / (1 - down);
      x = c * (down / s * x + (1 - down / s) * m) + std::sqrt(to * to - down * down * c * c) * noise_of(i);
    } else {
      const double k = step.from.sigma / step.from.alpha, to = step.to.sigma / step.to.alpha;
      const double up = std::sqrt(to * to * (k * k - to * to) / (k * k)), down = to * to / k;
      const double y = x / step.from.alpha;
      x = step.to.alpha * (y + (down - k) * (y - m) / k + up * noise_of(i));
    }
  }
  return x;
}

double lcm(const NoiseSchedule& schedule, double x) {
  for (std::size_t i = 0; i < schedule.steps.size(); ++i) {
    const NoiseStep& step = schedule.steps[i];
    double image = image_of(schedule.prediction, step.from, x, model(x));
    if (schedule.prediction != Prediction::kFlow) {
      const double w = 10 * step.timestep;
      image = w / std::sqrt(w * w + 0.25) * image + 0.25 / (w * w + 0.25) * x;
    }
    x = step.to.alpha * image + step.to.sigma * noise_of(i);
  }
  return x;
}

TEST(SamplerTables, AreTheFormulasOnDiffusersLevels) {
  const std::vector<std::pair<Sampler, Formula>> formulas = {
      {Sampler::kEuler, euler},
      {Sampler::kDdim, euler},
      {Sampler::kHeun, heun},
      {Sampler::kDpm2M, [](const NoiseSchedule& schedule, double x) { return dpm(schedule, x, false); }},
      {Sampler::kDpm2MSde, [](const NoiseSchedule& schedule, double x) { return dpm(schedule, x, true); }},
      {Sampler::kUniPC, unipc},
      {Sampler::kEulerAncestral, ancestral},
      {Sampler::kLcm, lcm}};
  for (const int steps : {4, 7, 20, 50})
    for (const Prediction prediction : {Prediction::kEpsilon, Prediction::kV, Prediction::kFlow})
      for (const auto& [sampler, formula] : formulas) {
        const bool is_flow = prediction == Prediction::kFlow;
        const NoiseSchedule schedule =
            schedule_of(fmt::format("{}.{}", is_flow ? "flow-unipc" : "dpm-karras", steps), prediction);
        const double expected = formula(schedule, 0.7);
        EXPECT_NEAR(run(make_sampler_tables(sampler, schedule), 0.7), expected, kTableError * std::fabs(expected))
            << to_string(sampler) << ' ' << steps << " steps, prediction " << static_cast<int>(prediction);
      }
}

// If the first level is pure noise, ln(alpha / sigma) is infinite there: terms from before it have no weight.
TEST(SamplerTables, NoiseAloneIsALevelLikeOthers) {
  for (const std::int64_t steps : {1, 2, 3, 8}) {
    const NoiseSchedule exact = FlowSchedule{}.schedule(steps, 1024);
    NoiseSchedule near = exact;
    near.steps.front().from = {.alpha = 1e-300, .sigma = 1};
    for (const Sampler sampler : {Sampler::kHeun, Sampler::kDpm2M, Sampler::kDpm2MSde, Sampler::kUniPC, Sampler::kPlms,
                                  Sampler::kEulerAncestral, Sampler::kLcm, Sampler::kDpm2S, Sampler::kDpm2SSde,
                                  Sampler::kDeis, Sampler::kLms, Sampler::kTcd}) {
      const double end = run(make_sampler_tables(sampler, exact), 0.7);
      EXPECT_TRUE(std::isfinite(end)) << to_string(sampler) << ' ' << steps;
      EXPECT_NEAR(end, run(make_sampler_tables(sampler, near), 0.7), 3e-3) << to_string(sampler) << ' ' << steps;
    }
  }
}

// With the exact prediction at every level, linear in the sample, all samplers without added noise end at the image.
TEST(SamplerTables, AStraightLineIsFollowedToItsEnd) {
  const NoiseSchedule schedule = FlowSchedule{}.schedule(5, 1024);
  constexpr double kImage = -1.5, kNoise = 0.4;
  for (const Sampler sampler : {Sampler::kEuler, Sampler::kHeun, Sampler::kDpm2M, Sampler::kUniPC, Sampler::kDdim,
                                Sampler::kPlms, Sampler::kDpm2S, Sampler::kDeis, Sampler::kLms, Sampler::kTcd}) {
    const SamplerTables tables = make_sampler_tables(sampler, schedule);
    std::array<double, LinearForm::kColumns> columns{kNoise};
    for (const auto& forms : tables.next) {
      columns[LinearForm::kOutput] = kNoise - kImage;
      std::array<double, LinearForm::kStates> next{};
      for (std::size_t state = 0; state < next.size(); ++state)
        for (std::size_t k = 0; k < columns.size(); ++k) next[state] += forms[state].of[k] * columns[k];
      std::ranges::copy(next, columns.begin());
    }
    EXPECT_NEAR(columns[0], kImage, 1e-12) << to_string(sampler);
  }
}

// Samplers are linear: from a zero sample, without fresh noise, the result is the weighted sum of predictions.
TEST(SamplerTables, TellHowMuchOfAnAnswerIsInTheSample) {
  const NoiseSchedule schedule = FlowSchedule{}.schedule(6, 1024);
  for (const Sampler sampler : {Sampler::kEuler, Sampler::kHeun, Sampler::kDpm2M, Sampler::kDpm2MSde, Sampler::kUniPC,
                                Sampler::kPlms, Sampler::kEulerAncestral, Sampler::kLcm}) {
    const SamplerTables tables = make_sampler_tables(sampler, schedule);
    const std::vector<double> weights = tables.answers_in_sample();
    ASSERT_EQ(std::ssize(weights), tables.calls());
    std::array<double, LinearForm::kColumns> columns{};
    double expected = 0;
    for (std::size_t call = 0; call < tables.next.size(); ++call) {
      columns[LinearForm::kOutput] = noise_of(call);
      expected += weights[call] * noise_of(call);
      std::array<double, LinearForm::kStates> next{};
      for (std::size_t state = 0; state < next.size(); ++state)
        for (std::size_t k = 0; k < columns.size(); ++k) next[state] += tables.next[call][state].of[k] * columns[k];
      std::ranges::copy(next, columns.begin());
    }
    EXPECT_NEAR(columns[0], expected, 1e-12) << to_string(sampler);
    EXPECT_NE(expected, 0) << to_string(sampler);
  }
}

// The rest of a schedule is a schedule itself, but rules that depend on the number of steps count all of them.
TEST(SamplerTables, StepsThatAreSkippedStillCount) {
  NoiseSchedule rest = schedule_of("dpm-sigma-min.20", Prediction::kEpsilon);
  const NoiseLevel level = rest.steps[8].from;
  rest.skip(8);
  ASSERT_EQ(rest.steps.size(), 12U);
  NoiseSchedule alone = rest;
  alone.skipped = 0;
  EXPECT_EQ(make_sampler_tables(Sampler::kDpm2M, rest).first, level);
  EXPECT_EQ(run(make_sampler_tables(Sampler::kEuler, rest), 0.7),
            run(make_sampler_tables(Sampler::kEuler, alone), 0.7));
  EXPECT_NE(run(make_sampler_tables(Sampler::kDpm2M, rest), 0.7), run(make_sampler_tables(Sampler::kDpm2M, alone), 0.7))
      << "fewer than 15 steps end with one of order 1";
  const SolverOptions uncorrected{.disable_corrector = {10}};
  EXPECT_NE(run(make_sampler_tables(Sampler::kUniPC, rest, uncorrected), 0.7),
            run(make_sampler_tables(Sampler::kUniPC, rest), 0.7));
}

TEST(SamplerTables, OptionsChangeWhatTheySay) {
  const NoiseSchedule schedule = schedule_of("dpm-sigma-min.20", Prediction::kEpsilon);
  const auto end = [&](Sampler sampler, const SolverOptions& options) {
    return run(make_sampler_tables(sampler, schedule, options), 0.7);
  };
  const NoiseSchedule& same = schedule;
  EXPECT_NEAR(end(Sampler::kDpm2M, {.order = 1}), euler(same, 0.7), 1e-12);
  const double plain = end(Sampler::kDpm2M, {});
  EXPECT_NE(end(Sampler::kDpm2M, {.uses_heun = true}), plain);
  EXPECT_NE(end(Sampler::kDpm2M, {.euler_at_final = true}), plain);
  EXPECT_NE(end(Sampler::kUniPC, {.uses_bh1 = true}), end(Sampler::kUniPC, {}));
  EXPECT_NE(end(Sampler::kUniPC, {.disable_corrector = {3}}), end(Sampler::kUniPC, {}));
}

}  // namespace
}  // namespace headroom
