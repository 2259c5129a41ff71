#include "pipelines/schedules/scheduler.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.hpp"

namespace headroom {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;
using testing::Not;

/// The config of Stable Diffusion XL, with keys that its class does not read.
json stable_diffusion() {
  return {{"_class_name", "EulerDiscreteScheduler"},
          {"_diffusers_version", "0.19.0.dev0"},
          {"beta_end", 0.012},
          {"beta_schedule", "scaled_linear"},
          {"beta_start", 0.00085},
          {"clip_sample", false},
          {"interpolation_type", "linear"},
          {"num_train_timesteps", 1000},
          {"prediction_type", "epsilon"},
          {"sample_max_value", 1.0},
          {"set_alpha_to_one", false},
          {"skip_prk_steps", true},
          {"steps_offset", 1},
          {"timestep_spacing", "leading"},
          {"trained_betas", nullptr},
          {"use_karras_sigmas", false}};
}

json with(json config, const json& keys) {
  config.update(keys);
  return config;
}

std::string config_error(const json& config, std::optional<Sampler> named = std::nullopt) {
  try {
    static_cast<void>(parse_scheduler(config, named));
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing was thrown";
}

TEST(Scheduler, ReadsDiffusersKeysOfFlowMatching) {
  const Scheduler scheduler = parse_scheduler({{"base_shift", 0.25}, {"max_image_seq_len", 1024}});
  const auto& levels = std::get<FlowSchedule>(scheduler.levels);
  EXPECT_EQ(scheduler.sampler, Sampler::kEuler);
  EXPECT_FALSE(levels.use_dynamic_shifting);
  EXPECT_DOUBLE_EQ(levels.base_shift, 0.25);
  EXPECT_EQ(levels.max_tokens, 1024);
}

TEST(Scheduler, TheClassSaysTheSampler) {
  const auto sampler_of = [](const char* name, json keys = json::object()) {
    keys["_class_name"] = name;
    keys["clip_sample"] = false;
    return parse_scheduler(keys).sampler;
  };
  EXPECT_EQ(sampler_of("FlowMatchEulerDiscreteScheduler"), Sampler::kEuler);
  EXPECT_EQ(sampler_of("FlowMatchEulerDiscreteScheduler", {{"stochastic_sampling", true}}), Sampler::kLcm);
  EXPECT_EQ(sampler_of("FlowMatchHeunDiscreteScheduler"), Sampler::kHeun);
  EXPECT_EQ(sampler_of("DPMSolverMultistepScheduler"), Sampler::kDpm2M);
  EXPECT_EQ(sampler_of("DPMSolverMultistepScheduler", {{"algorithm_type", "sde-dpmsolver++"}}), Sampler::kDpm2MSde);
  EXPECT_EQ(sampler_of("UniPCMultistepScheduler"), Sampler::kUniPC);
  EXPECT_EQ(sampler_of("DDIMScheduler"), Sampler::kDdim);
  EXPECT_EQ(sampler_of("EulerAncestralDiscreteScheduler"), Sampler::kEulerAncestral);
  EXPECT_EQ(sampler_of("LCMScheduler"), Sampler::kLcm);
  EXPECT_EQ(sampler_of("PNDMScheduler", {{"skip_prk_steps", true}}), Sampler::kPlms);
  EXPECT_EQ(sampler_of("DEISMultistepScheduler"), Sampler::kDeis);
  EXPECT_EQ(sampler_of("LMSDiscreteScheduler"), Sampler::kLms);
  EXPECT_EQ(sampler_of("TCDScheduler"), Sampler::kTcd);
  EXPECT_EQ(sampler_of("DDPMScheduler"), Sampler::kDdpm);
  EXPECT_EQ(sampler_of("DPMSolverSDEScheduler"), Sampler::kDpmSde);
  EXPECT_EQ(sampler_of("DPMSolverSinglestepScheduler"), Sampler::kDpm2S);
  EXPECT_EQ(sampler_of("DPMSolverSinglestepScheduler", {{"algorithm_type", "sde-dpmsolver++"}}), Sampler::kDpm2SSde);
  // Solvers map each other's names to their own default, as in diffusers.
  EXPECT_EQ(sampler_of("DPMSolverMultistepScheduler", {{"algorithm_type", "deis"}, {"solver_type", "logrho"}}),
            Sampler::kDpm2M);
  EXPECT_EQ(sampler_of("DEISMultistepScheduler", {{"algorithm_type", "dpmsolver++"}}), Sampler::kDeis);
}

TEST(Scheduler, FlowMatchingOfASolverIsReadFromItsKeys) {
  const Scheduler scheduler = parse_scheduler({{"_class_name", "UniPCMultistepScheduler"},
                                               {"use_flow_sigmas", true},
                                               {"prediction_type", "flow_prediction"},
                                               {"flow_shift", 3.0}});
  const auto& levels = std::get<FlowSchedule>(scheduler.levels);
  EXPECT_EQ(levels.spacing, FlowSpacing::kUniPC);
  EXPECT_DOUBLE_EQ(levels.shift, 3);
}

// from_config: the keys that the new class reads, under its own rules.
TEST(Scheduler, ANamedSamplerReadsTheConfigAsItsOwnClassWould) {
  const Scheduler ddim = parse_scheduler(stable_diffusion(), Sampler::kDdim);
  const auto& levels = std::get<DiffusionSchedule>(ddim.levels);
  EXPECT_EQ(levels.rules, DiffusionRules::kDdim);
  EXPECT_FALSE(levels.set_alpha_to_one);
  EXPECT_EQ(levels.schedule(10).steps.front().timestep, 901);  // 9 * (1000 / 10) + 1
  const Scheduler dpm = parse_scheduler(stable_diffusion(), Sampler::kDpm2M);
  EXPECT_EQ(std::get<DiffusionSchedule>(dpm.levels).schedule(10).steps.front().timestep, 901);  // 10 * (1000 / 11) + 1
  EXPECT_THAT(config_error({{"_class_name", "PNDMScheduler"}}), HasSubstr("skip_prk_steps is false, expected true"));
  EXPECT_EQ(parse_scheduler({{"_class_name", "PNDMScheduler"}}, Sampler::kUniPC).sampler, Sampler::kUniPC);
}

TEST(Scheduler, ANamedSamplerKeepsTheLevelsOfFlowMatching) {
  const json config = {{"shift", 3.0}};
  const auto own = std::get<FlowSchedule>(parse_scheduler(config).levels).sigmas(8, 256);
  const Scheduler scheduler = parse_scheduler(config, Sampler::kUniPC);
  EXPECT_EQ(scheduler.sampler, Sampler::kUniPC);
  EXPECT_EQ(std::get<FlowSchedule>(scheduler.levels).sigmas(8, 256), own);
}

TEST(Scheduler, AShiftTakesThePlaceOfTheModelsOwn) {
  Scheduler flow = parse_scheduler(
      {{"_class_name", "FlowMatchEulerDiscreteScheduler"}, {"use_dynamic_shifting", true}, {"shift_terminal", 0.02}});
  flow.set_shift(1);
  for (const std::int64_t tokens : {16, 4096}) {
    const SamplerTables tables = flow.tables(4, tokens);
    for (std::size_t i = 0; i < 4; ++i)
      EXPECT_NEAR(tables.timesteps.at(i), 1000 - 250.0 * static_cast<double>(i), 1e-9);
  }
  Scheduler diffusion = parse_scheduler({{"_class_name", "EulerDiscreteScheduler"}});
  EXPECT_THROW(diffusion.set_shift(1), Error);
}

TEST(Scheduler, WhatIsNotKnownIsNamed) {
  EXPECT_THAT(config_error({{"_class_name", "EDMEulerScheduler"}}), HasSubstr("_class_name is EDMEulerScheduler"));
  EXPECT_THAT(config_error(with(stable_diffusion(), {{"shiny", 1}})), HasSubstr("the key shiny is not supported"));
  EXPECT_THAT(config_error({{"time_shift_type", "cubic"}}), HasSubstr("time_shift_type is cubic"));
  EXPECT_THAT(config_error({{"max_image_seq_len", 256}}), HasSubstr("must be rising"));
  EXPECT_THAT(config_error({{"invert_sigmas", true}}), HasSubstr("invert_sigmas is true, expected false"));
  EXPECT_THAT(config_error({{"use_beta_sigmas", true}, {"use_karras_sigmas", true}}),
              HasSubstr("use_karras_sigmas and use_beta_sigmas are both true"));
  EXPECT_THAT(config_error(with(stable_diffusion(), {{"prediction_type", "sample"}})),
              HasSubstr("prediction_type is sample, expected one of epsilon, v_prediction"));
  EXPECT_THAT(config_error(with(stable_diffusion(), {{"trained_betas", json::array({0.1})}})),
              HasSubstr("trained_betas"));
  EXPECT_THAT(config_error({{"_class_name", "DPMSolverMultistepScheduler"}, {"solver_order", 3}}),
              HasSubstr("solver_order is 3, expected 1 to 2"));
  EXPECT_THAT(config_error({{"_class_name", "DPMSolverMultistepScheduler"}, {"algorithm_type", "dpmsolver"}}),
              HasSubstr("algorithm_type is dpmsolver"));
  EXPECT_THAT(config_error({{"_class_name", "UniPCMultistepScheduler"}, {"use_flow_sigmas", true}}),
              HasSubstr("prediction_type is epsilon, expected flow_prediction"));
}

// DDIM's class clips unless the config turns that off, and a clipped sample is not a linear function.
TEST(Scheduler, ClippingIsRefusedWhereItWouldHappen) {
  EXPECT_THAT(config_error({{"_class_name", "DDIMScheduler"}}), HasSubstr("clip_sample is true, expected false"));
  // No class reads it.
  EXPECT_THAT(config_error(with(stable_diffusion(), {{"clip_sample", true}})), "nothing was thrown");
  EXPECT_THAT(config_error(with(stable_diffusion(), {{"clip_sample", true}}), Sampler::kDdim),
              HasSubstr("clip_sample"));
}

/// The keys of dreamshaper-8 with an unknown class name.
json unknown_class() {
  return {{"_class_name", "KDPM2DiscreteScheduler"},
          {"beta_start", 0.00085},
          {"beta_end", 0.012},
          {"beta_schedule", "scaled_linear"},
          {"shiny", 1}};
}

TEST(Scheduler, ANamedSamplerReplacesWhatCannotRun) {
  EXPECT_EQ(parse_scheduler(unknown_class(), Sampler::kDpm2M).sampler, Sampler::kDpm2M);
  const json order_3 = with(stable_diffusion(), {{"_class_name", "DPMSolverMultistepScheduler"}, {"solver_order", 3}});
  EXPECT_EQ(parse_scheduler(order_3, Sampler::kEuler).sampler, Sampler::kEuler);
  EXPECT_EQ(parse_scheduler(order_3, Sampler::kDeis).options.order, 3);
  const json learned = with(stable_diffusion(), {{"_class_name", "DDPMScheduler"}, {"variance_type", "learned_range"}});
  EXPECT_EQ(parse_scheduler(learned, Sampler::kUniPC).sampler, Sampler::kUniPC);
  const json fixed = with(stable_diffusion(), {{"variance_type", "fixed_small"}});
  EXPECT_EQ(parse_scheduler(fixed, Sampler::kDpm2M).sampler, Sampler::kDpm2M);
  // Without a named sampler, the error lists exactly those that would work.
  EXPECT_THAT(config_error(unknown_class()),
              HasSubstr("_class_name is KDPM2DiscreteScheduler, which is not supported"));
  EXPECT_THAT(config_error(unknown_class()),
              HasSubstr("--opt sampler=NAME replaces it, NAME one of euler, heun, dpm++2m"));
  EXPECT_THAT(config_error(order_3), HasSubstr("solver_order is 3, expected 1 to 2; --opt sampler=NAME"));
  EXPECT_THAT(config_error(order_3), Not(HasSubstr("unipc")));
  EXPECT_THAT(config_error(with(stable_diffusion(), {{"beta_start", -1.0}})), Not(HasSubstr("sampler=NAME")));
}

TEST(Scheduler, LevelsOfAnUnknownClassAreNotGuessed) {
  const json edm = {
      {"_class_name", "EDMEulerScheduler"}, {"sigma_min", 0.002}, {"sigma_max", 80.0}, {"sigma_data", 0.5}};
  EXPECT_THAT(config_error(edm, Sampler::kEuler), HasSubstr("_class_name is EDMEulerScheduler"));
  EXPECT_EQ(is_flow_matching(edm), std::nullopt);
  EXPECT_EQ(is_flow_matching(unknown_class()), false);
  EXPECT_EQ(is_flow_matching(json::object()), true);
}

TEST(Scheduler, VariancesOfDdpmAreItsOwn) {
  const auto ddpm = [](const char* type) {
    return with(stable_diffusion(), {{"_class_name", "DDPMScheduler"}, {"variance_type", type}});
  };
  EXPECT_FALSE(parse_scheduler(ddpm("fixed_small")).options.has_large_variance);
  EXPECT_TRUE(parse_scheduler(ddpm("fixed_large")).options.has_large_variance);
  EXPECT_THAT(config_error(ddpm("learned")), HasSubstr("variance_type is learned, expected one of fixed_small"));
  for (const char* type : {"learned", "learned_range"})
    EXPECT_THAT(config_error(with(stable_diffusion(),
                                  {{"_class_name", "DPMSolverMultistepScheduler"}, {"variance_type", type}})),
                HasSubstr("a model that answers with the mean alone"));
}

// A null counts as a missing key.
TEST(Scheduler, NullsAreDefaults) {
  for (const char* name :
       {"EulerDiscreteScheduler", "DPMSolverMultistepScheduler", "DEISMultistepScheduler", "DDIMScheduler",
        "LCMScheduler", "TCDScheduler", "PNDMScheduler", "FlowMatchEulerDiscreteScheduler"}) {
    const bool is_flow = std::string_view(name).starts_with("Flow");
    const json config =
        is_flow ? json{{"_class_name", name}, {"shift", 3.0}} : with(stable_diffusion(), {{"_class_name", name}});
    for (const auto& [key, value] : config.items()) {
      const json with_null = with(config, {{key, nullptr}});
      const std::string error = config_error(with_null);
      if (key == "clip_sample" || key == "skip_prk_steps") continue;  // the default is unsupported here
      EXPECT_EQ(error, "nothing was thrown") << name << ' ' << key;
    }
  }
}

/// Whether every coefficient is a number.
bool is_finite(const SamplerTables& tables) {
  return std::ranges::all_of(tables.next, [](const auto& forms) {
    return std::ranges::all_of(forms, [](const LinearForm& form) {
      return std::ranges::all_of(form.of, [](double number) { return std::isfinite(number); });
    });
  });
}

// Leading timesteps of 999 and 1000 steps are equal at the beginning and everywhere; clipped ones have fewer levels
// than steps.
TEST(Scheduler, EqualNoiseLevelsAreLevelsLikeOthers) {
  const json cosine = {{"_class_name", "DPMSolverMultistepScheduler"},
                       {"beta_schedule", "squaredcos_cap_v2"},
                       {"lambda_min_clipped", -5.1},
                       {"timestep_spacing", "leading"}};
  const json zero_snr = {{"_class_name", "DPMSolverMultistepScheduler"},
                         {"rescale_betas_zero_snr", true},
                         {"prediction_type", "v_prediction"},
                         {"use_karras_sigmas", true}};
  for (const json& config : {stable_diffusion(), cosine, zero_snr})
    for (std::size_t i = 0; i < kSamplers; ++i) {
      const auto sampler = static_cast<Sampler>(i);
      const Scheduler scheduler = parse_scheduler(config, sampler);
      for (const std::int64_t steps : {1, 2, 3, 49, 500, 998, 999, 1000}) {
        if ((sampler == Sampler::kLcm || sampler == Sampler::kTcd) && steps > 50) continue;
        try {
          EXPECT_TRUE(is_finite(scheduler.tables(steps, 0))) << to_string(sampler) << ' ' << steps << ' ' << config;
        } catch (const Error& error) {  // with an offset the first timestep exceeds the training's
          EXPECT_THAT(error.what(), HasSubstr("a sampler's step is at timestep 1000"));
          EXPECT_EQ(steps, 1000) << to_string(sampler);
        }
      }
    }
}

std::vector<double> timesteps_of(const json& config, std::int64_t steps) {
  return parse_scheduler(config).tables(steps, 0).timesteps;
}

// numpy's arange takes the difference of its first two numbers as the step, and the quotient as the count. Values are
// as printed by diffusers 0.42.1.
TEST(Scheduler, TrailingTimestepsAreNumpysArange) {
  const auto trailing = [](const char* name) {
    return with(stable_diffusion(),
                {{"_class_name", name}, {"timestep_spacing", "trailing"}, {"set_alpha_to_one", true}});
  };
  for (const char* name :
       {"EulerDiscreteScheduler", "DDIMScheduler", "DPMSolverMultistepScheduler", "UniPCMultistepScheduler",
        "DEISMultistepScheduler", "EulerAncestralDiscreteScheduler", "LMSDiscreteScheduler"}) {
    for (const std::int64_t steps : {1, 48, 60, 200})
      EXPECT_EQ(std::ssize(timesteps_of(trailing(name), steps)), steps) << name;
    for (const std::int64_t steps : {61, 103, 121, 122}) {
      EXPECT_EQ(std::ssize(timesteps_of(trailing(name), steps)), steps + 1) << name;
      EXPECT_EQ(timesteps_of(trailing(name), steps).back(), -1) << name;
    }
  }
  const std::vector<double> euler = timesteps_of(trailing("EulerDiscreteScheduler"), 500);
  EXPECT_EQ(euler.at(344), 311);
  EXPECT_THAT(timesteps_of(trailing("DDIMScheduler"), 48), AllOf(Contains(686), Not(Contains(687))));
}

// DDPM's step before a timestep of -1 ends in an image, which the step from -1 takes for noise.
TEST(Scheduler, DdpmStepsToTheImageBeforeATimestepOfMinusOne) {
  const json config = with(stable_diffusion(), {{"_class_name", "DDPMScheduler"}, {"timestep_spacing", "trailing"}});
  const std::vector<NoiseStep> steps = parse_scheduler(config).schedule(61, 256).steps;
  ASSERT_EQ(std::ssize(steps), 62);
  EXPECT_EQ(steps[61].timestep, -1);
  EXPECT_EQ(steps[60].to, kNoNoise);
  EXPECT_EQ(steps[59].to, steps[60].from);
}

// Respaced levels begin at the last timestep or at the one before, depending on how the logarithm of their first is
// rounded in f32.
TEST(Scheduler, RespacedLevelsBeginWhereDiffusersDo) {
  const auto first = [](const char* name, const json& keys) {
    return timesteps_of(with(with(stable_diffusion(), {{"_class_name", name}}), keys), 20).front();
  };
  EXPECT_EQ(first("DPMSolverMultistepScheduler", {{"use_exponential_sigmas", true}}), 998);
  EXPECT_EQ(first("UniPCMultistepScheduler", {{"use_exponential_sigmas", true}}), 998);
  EXPECT_EQ(first("DPMSolverMultistepScheduler", {{"use_karras_sigmas", true}}), 999);
  EXPECT_EQ(first("DPMSolverMultistepScheduler", {{"use_karras_sigmas", true}, {"beta_schedule", "squaredcos_cap_v2"}}),
            998);
  EXPECT_EQ(
      first(
          "DPMSolverMultistepScheduler",
          {{"use_exponential_sigmas", true}, {"beta_schedule", "linear"}, {"beta_start", 0.0001}, {"beta_end", 0.02}}),
      999);
  // Zero-SNR's table decreases at its end. A level one bit below its entry would begin at timestep 995 there.
  const json zero_snr = {{"rescale_betas_zero_snr", true},
                         {"prediction_type", "v_prediction"},
                         {"beta_schedule", "linear"},
                         {"beta_start", 0.0001},
                         {"beta_end", 0.02}};
  for (const char* key : {"use_karras_sigmas", "use_exponential_sigmas"})
    EXPECT_NEAR(
        first("EulerDiscreteScheduler", with(with(zero_snr, {{"timestep_spacing", "trailing"}}), {{key, true}})), 999,
        1e-3);
}

TEST(Scheduler, InfinitiesAreReadAsNothingGiven) {
  const json config =
      parse_scheduler_config(R"({"_class_name": "DPMSolverMultistepScheduler", "lambda_min_clipped": -Infinity})", "x");
  EXPECT_EQ(config_error(config), "nothing was thrown");
  EXPECT_THROW(static_cast<void>(parse_scheduler_config("[1]", "x")), Error);
}

// Betas whose products vanish in f32 leave no image; betas that vanish there themselves make no noise. A ratio whose
// square overflows is no level either. Every sampler of diffusion names these numbers.
TEST(Scheduler, NumbersThatMakeNoLevelsAreRefused) {
  const auto error_at = [](const json& keys, Sampler sampler) -> std::string {
    const Scheduler scheduler = parse_scheduler(with(stable_diffusion(), keys), sampler);
    try {
      static_cast<void>(scheduler.tables(2, 256));
    } catch (const Error& error) {
      return error.what();
    }
    return "nothing was thrown";
  };
  const json large = {{"beta_start", 0.5}, {"beta_end", 0.5}, {"steps_offset", 0}};
  const json small = {{"beta_start", 1e-30}, {"beta_end", 1e-30}, {"steps_offset", 0}};
  for (const Sampler sampler : {Sampler::kEuler, Sampler::kHeun, Sampler::kDpm2M, Sampler::kUniPC, Sampler::kDdim,
                                Sampler::kDdpm, Sampler::kPlms, Sampler::kDeis, Sampler::kLms, Sampler::kDpmSde}) {
    for (const char* const spacing : {"leading", "linspace", "trailing"}) {
      const json spaced = {{"timestep_spacing", spacing}};
      EXPECT_THAT(error_at(with(large, spaced), sampler), HasSubstr("beta_start 0.5 with beta_end 0.5"))
          << to_string(sampler) << " " << spacing;
      EXPECT_THAT(error_at(with(small, spaced), sampler), HasSubstr("noise level of 0"))
          << to_string(sampler) << " " << spacing;
    }
  }
  const json endless = {{"use_karras_sigmas", true}, {"sigma_max", 1e200}, {"sigma_min", 0.1}};
  EXPECT_THAT(error_at(endless, Sampler::kEuler), HasSubstr("sigma_max 1e+200"));
}

TEST(Scheduler, MoreStepsThanAreTrainedForAreRefused) {
  EXPECT_THROW(static_cast<void>(parse_scheduler(stable_diffusion()).tables(1001, 0)), Error);
  EXPECT_THROW(static_cast<void>(parse_scheduler(stable_diffusion(), Sampler::kLcm).tables(51, 0)), Error);
}

}  // namespace
}  // namespace headroom
