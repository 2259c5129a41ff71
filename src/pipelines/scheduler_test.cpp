#include "pipelines/scheduler.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/error.hpp"

namespace headroom {
namespace {

using nlohmann::json;
using testing::HasSubstr;

/// Stable Diffusion XL's, with keys that its class does not read.
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

std::string error_of(const json& config, std::optional<Sampler> named = std::nullopt) {
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

// from_config: the keys that the new class reads, by its own rules.
TEST(Scheduler, ANamedSamplerReadsTheConfigAsItsOwnClassWould) {
  const Scheduler ddim = parse_scheduler(stable_diffusion(), Sampler::kDdim);
  const auto& levels = std::get<DiffusionSchedule>(ddim.levels);
  EXPECT_EQ(levels.rules, DiffusionRules::kDdim);
  EXPECT_FALSE(levels.set_alpha_to_one);
  EXPECT_EQ(levels.schedule(10).steps.front().timestep, 901);  // 9 * (1000 / 10) + 1
  const Scheduler dpm = parse_scheduler(stable_diffusion(), Sampler::kDpm2M);
  EXPECT_EQ(std::get<DiffusionSchedule>(dpm.levels).schedule(10).steps.front().timestep, 901);  // 10 * (1000 / 11) + 1
  EXPECT_THAT(error_of({{"_class_name", "PNDMScheduler"}}), HasSubstr("skip_prk_steps is false, expected true"));
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
  Scheduler flow =
      parse_scheduler({{"_class_name", "FlowMatchEulerDiscreteScheduler"}, {"use_dynamic_shifting", true}});
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
  EXPECT_THAT(error_of({{"_class_name", "EDMEulerScheduler"}}), HasSubstr("_class_name is EDMEulerScheduler"));
  EXPECT_THAT(error_of(with(stable_diffusion(), {{"shiny", 1}})), HasSubstr("the key shiny is not known here"));
  EXPECT_THAT(error_of({{"time_shift_type", "cubic"}}), HasSubstr("time_shift_type is cubic"));
  EXPECT_THAT(error_of({{"max_image_seq_len", 256}}), HasSubstr("must be rising"));
  EXPECT_THAT(error_of({{"invert_sigmas", true}}), HasSubstr("invert_sigmas is true, expected false"));
  EXPECT_THAT(error_of({{"use_beta_sigmas", true}}), HasSubstr("use_beta_sigmas is true"));
  EXPECT_THAT(error_of(with(stable_diffusion(), {{"prediction_type", "sample"}})),
              HasSubstr("prediction_type is sample, expected one of epsilon, v_prediction"));
  EXPECT_THAT(error_of(with(stable_diffusion(), {{"trained_betas", json::array({0.1})}})), HasSubstr("trained_betas"));
  EXPECT_THAT(error_of({{"_class_name", "DPMSolverMultistepScheduler"}, {"solver_order", 3}}),
              HasSubstr("solver_order is 3, expected 1 to 2"));
  EXPECT_THAT(error_of({{"_class_name", "DPMSolverMultistepScheduler"}, {"algorithm_type", "dpmsolver"}}),
              HasSubstr("algorithm_type is dpmsolver"));
  EXPECT_THAT(error_of({{"_class_name", "UniPCMultistepScheduler"}, {"use_flow_sigmas", true}}),
              HasSubstr("prediction_type is epsilon, expected flow_prediction"));
}

// DDIM's class clips unless it is told not to, and a clipped sample is no linear function.
TEST(Scheduler, ClippingIsRefusedWhereItWouldHappen) {
  EXPECT_THAT(error_of({{"_class_name", "DDIMScheduler"}}), HasSubstr("clip_sample is true, expected false"));
  EXPECT_THAT(error_of(with(stable_diffusion(), {{"clip_sample", true}})), "nothing was thrown");  // nobody reads it
  EXPECT_THAT(error_of(with(stable_diffusion(), {{"clip_sample", true}}), Sampler::kDdim), HasSubstr("clip_sample"));
}

TEST(Scheduler, InfinitiesAreReadAsNothingGiven) {
  const json config =
      parse_scheduler_config(R"({"_class_name": "DPMSolverMultistepScheduler", "lambda_min_clipped": -Infinity})", "x");
  EXPECT_EQ(error_of(config), "nothing was thrown");
  EXPECT_THROW(static_cast<void>(parse_scheduler_config("[1]", "x")), Error);
}

TEST(Scheduler, MoreStepsThanAreTrainedForAreRefused) {
  EXPECT_THROW(static_cast<void>(parse_scheduler(stable_diffusion()).tables(1001, 0)), Error);
  EXPECT_THROW(static_cast<void>(parse_scheduler(stable_diffusion(), Sampler::kLcm).tables(51, 0)), Error);
}

}  // namespace
}  // namespace headroom
