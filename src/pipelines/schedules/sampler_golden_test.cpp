// Samplers compared with diffusers' schedulers (tests/goldens/make_samplers.py): their levels, and the final sample
// under a model that is a formula.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/test_paths.hpp"
#include "base/test_util.hpp"
#include "base/text/json.hpp"
#include "io/safetensors.hpp"
#include "pipelines/schedules/scheduler.hpp"

namespace headroom {
namespace {

constexpr double kLevelError = 1e-6;  // relative; diffusers stores levels in f32, with a spacing of 6e-8
// Relative L2; measured 4.3e-7; the error of diffusers, in f32, is at most 3.5e-5.
constexpr double kSampleError = 1e-6;

const std::filesystem::path& folder() {
  static const std::filesystem::path path = source_dir(kSourceDir) / "tests/goldens/samplers";
  return path;
}
const SafetensorsFile& golden() {
  static const SafetensorsFile file = SafetensorsFile::open(folder() / "expected.safetensors");
  return file;
}

/// One scheduler of the file.
struct Case {
  std::string name;
  nlohmann::json config;
  std::vector<std::string> predictions;
  std::vector<std::int64_t> steps;
  std::int64_t tokens = 256;
  FlowSpacing spacing = FlowSpacing::kOwn;
  std::optional<double> eta = std::nullopt;

  [[nodiscard]] Scheduler scheduler(const std::string& prediction) const {
    nlohmann::json full = config;
    full["prediction_type"] = prediction;
    if (prediction == "flow_prediction" && !config.contains("use_flow_sigmas")) full.erase("prediction_type");
    Scheduler scheduler = parse_scheduler(full, std::nullopt, spacing);
    if (eta) scheduler.set_eta(*eta);
    return scheduler;
  }
  [[nodiscard]] std::string key(std::int64_t step_count, const char* what) const {
    return fmt::format("{}.{}.{}", name, step_count, what);
  }
};

std::vector<Case> read_cases() {
  std::vector<Case> cases;
  const nlohmann::json all = read_json(folder() / "cases.json");
  for (const auto& [name, described] : all.items()) {
    Case one{.name = name,
             .config = parse_scheduler_config(described.at("config").get<std::string>(), name),
             .predictions = described.at("predictions").get<std::vector<std::string>>(),
             .steps = described.at("steps").get<std::vector<std::int64_t>>()};
    if (!described.at("tokens").is_null()) one.tokens = described.at("tokens").get<std::int64_t>();
    if (!described.at("eta").is_null()) one.eta = described.at("eta").get<double>();
    if (described.at("evenly").get<bool>()) one.spacing = FlowSpacing::kEven;
    cases.push_back(std::move(one));
  }
  return cases;
}

NoiseSchedule schedule_of(const Scheduler& scheduler, std::int64_t steps, std::int64_t tokens) {
  if (const auto* flow = std::get_if<FlowSchedule>(&scheduler.levels)) return flow->schedule(steps, tokens);
  return std::get<DiffusionSchedule>(scheduler.levels).schedule(steps);
}

/// The final sample in double precision: the file's noise and model with these tables.
std::vector<double> run(const SamplerTables& tables) {
  const HostTensor noise = golden().read("noise"), step_noise = golden().read("step_noise"),
                   bias = golden().read("bias");
  std::vector<double> end;
  for (std::int64_t i = 0; i < noise.numel(); ++i) {
    std::array<double, LinearForm::kColumns> columns{tables.noise_scale * noise.at(i)};
    for (std::size_t call = 0; call < tables.next.size(); ++call) {
      const double x = columns[0], t = tables.timesteps[call] / 1000;
      columns[LinearForm::kOutput] = std::tanh(0.7 * x + bias.at(i) * t) + 0.2 * x;
      columns[LinearForm::kNoise] = step_noise.at(static_cast<std::int64_t>(call) % 50 * noise.numel() + i);
      std::array<double, LinearForm::kStates> next{};
      for (std::size_t state = 0; state < next.size(); ++state)
        for (std::size_t column = 0; column < columns.size(); ++column)
          next[state] += tables.next[call][state].of[column] * columns[column];
      std::ranges::copy(next, columns.begin());
    }
    end.push_back(columns[0]);
  }
  return end;
}

TEST(SamplerGoldens, AlphasAreDiffusers) {
  const auto expect = [](const char* name, const DiffusionSchedule& schedule) {
    const std::vector<double> ours = schedule.alphas_cumprod();
    const HostTensor theirs = golden().read(std::string("alphas_cumprod.") + name);
    ASSERT_EQ(std::ssize(ours), theirs.numel());
    for (std::size_t i = 0; i < ours.size(); ++i)
      ASSERT_NEAR(ours[i], theirs.at(static_cast<std::int64_t>(i)), 5e-7) << name << ' ' << i;
  };
  const DiffusionSchedule scaled{.rules = DiffusionRules::kDdim,
                                 .beta_start = 0.00085,
                                 .beta_end = 0.012,
                                 .beta_schedule = BetaSchedule::kScaledLinear};
  expect("scaled_linear", scaled);
  DiffusionSchedule zero = scaled;
  zero.rescale_betas_zero_snr = true;
  expect("zero_snr", zero);
  expect("linear", {});
  expect("squaredcos_cap_v2", {.beta_schedule = BetaSchedule::kCosine});
}

TEST(SamplerGoldens, NameTheVersionsThatTheyWereMadeWith) {
  for (const char* library : {"diffusers", "torch", "numpy", "scipy"})
    EXPECT_TRUE(golden().metadata().contains(library)) << library;
}

TEST(SamplerGoldens, LevelsAndTimestepsAreDiffusers) {
  for (const Case& one : read_cases()) {
    for (const std::int64_t steps : one.steps) {
      SCOPED_TRACE(fmt::format("{}, {} steps", one.name, steps));
      const Scheduler scheduler = one.scheduler(one.predictions.front());
      const HostTensor timesteps = golden().read(one.key(steps, "timesteps"));
      const SamplerTables tables = scheduler.tables(steps, one.tokens);
      ASSERT_EQ(tables.calls(), timesteps.numel());
      for (std::int64_t i = 0; i < timesteps.numel(); ++i)
        EXPECT_NEAR(tables.timesteps[static_cast<std::size_t>(i)], timesteps.at(i), 1e-3) << "call " << i;
      if (!golden().has(one.key(steps, "sigmas"))) continue;
      const HostTensor sigmas = golden().read(one.key(steps, "sigmas"));
      const NoiseSchedule schedule = schedule_of(scheduler, steps, one.tokens);
      const auto level = [&](const NoiseLevel& at) {
        return schedule.prediction == Prediction::kFlow ? at.sigma : at.sigma / at.alpha;
      };
      ASSERT_EQ(sigmas.numel(), std::ssize(schedule.steps) + 1);
      for (std::int64_t i = 0; i + 1 < sigmas.numel(); ++i) {
        const NoiseStep& step = schedule.steps[static_cast<std::size_t>(i)];
        EXPECT_NEAR(level(step.from), sigmas.at(i), kLevelError * (1 + sigmas.at(i))) << "step " << i;
        EXPECT_NEAR(level(step.to), sigmas.at(i + 1), kLevelError * (1 + sigmas.at(i + 1))) << "step " << i;
      }
    }
  }
}

TEST(SamplerGoldens, SamplesAreDiffusers) {
  int compared = 0;
  for (const Case& one : read_cases()) {
    for (const std::int64_t steps : one.steps) {
      const HostTensor all = golden().read(one.key(steps, "latents"));  // [predictions, 2, 3, 4]
      for (std::size_t p = 0; p < one.predictions.size(); ++p) {
        const std::vector<double> ours = run(one.scheduler(one.predictions[p]).tables(steps, one.tokens));
        double difference = 0, norm = 0;
        for (std::size_t i = 0; i < ours.size(); ++i) {
          const double theirs = all.at(static_cast<std::int64_t>(p * ours.size() + i));
          difference += (ours[i] - theirs) * (ours[i] - theirs);
          norm += theirs * theirs;
        }
        EXPECT_LE(std::sqrt(difference / norm), kSampleError)
            << one.name << ", " << steps << " steps, " << one.predictions[p];
        ++compared;
      }
    }
  }
  EXPECT_GT(compared, 450);
}

}  // namespace
}  // namespace headroom
