#include "pipelines/flow_match.hpp"

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "base/json.hpp"

namespace headroom {

double FlowMatchSchedule::shift(std::int64_t image_tokens) const {
  const double slope = (max_shift - base_shift) / static_cast<double>(max_tokens - base_tokens);
  return base_shift + slope * static_cast<double>(image_tokens - base_tokens);
}

std::vector<double> FlowMatchSchedule::sigmas(std::int64_t steps, std::int64_t image_tokens) const {
  HR_CHECK(steps >= 1);
  const double e_mu = std::exp(shift(image_tokens));
  std::vector<double> sigmas;
  for (std::int64_t i = 0; i < steps; ++i) {
    const double even = 1.0 - static_cast<double>(i) / static_cast<double>(steps);
    sigmas.push_back(e_mu / (e_mu + 1.0 / even - 1.0));
  }
  sigmas.push_back(0.0);
  return sigmas;
}

FlowMatchSchedule parse_flow_match_schedule(const nlohmann::json& config) {
  constexpr const char* kFile = "scheduler_config.json";
  const std::string name = get_string_or(config, "_class_name", "FlowMatchEulerDiscreteScheduler", kFile);
  if (name != "FlowMatchEulerDiscreteScheduler")
    fail("{}: _class_name is {}, expected FlowMatchEulerDiscreteScheduler", kFile, name);
  if (!get_bool_or(config, "use_dynamic_shifting", true, kFile))
    fail("{}: use_dynamic_shifting is false, expected true: a fixed shift is not FLUX's schedule", kFile);
  FlowMatchSchedule schedule;
  schedule.base_shift = get_double_or(config, "base_shift", schedule.base_shift, kFile);
  schedule.max_shift = get_double_or(config, "max_shift", schedule.max_shift, kFile);
  schedule.base_tokens = get_int_or(config, "base_image_seq_len", schedule.base_tokens, kFile);
  schedule.max_tokens = get_int_or(config, "max_image_seq_len", schedule.max_tokens, kFile);
  if (schedule.base_tokens < 1 || schedule.max_tokens <= schedule.base_tokens)
    fail("{}: base_image_seq_len {} and max_image_seq_len {} must be positive and rising", kFile, schedule.base_tokens,
         schedule.max_tokens);
  return schedule;
}

}  // namespace headroom
