#include "pipelines/flow_match.hpp"

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "base/json.hpp"

namespace headroom {

double FlowMatchSchedule::dynamic_shift(std::int64_t image_tokens) const {
  const double slope = (max_shift - base_shift) / static_cast<double>(max_tokens - base_tokens);
  return base_shift + slope * static_cast<double>(image_tokens - base_tokens);
}

std::vector<double> FlowMatchSchedule::sigmas(std::int64_t steps, std::int64_t image_tokens) const {
  HR_CHECK(steps >= 1);
  const double mu = dynamic_shift(image_tokens);
  const double m = !use_dynamic_shifting ? shift : is_linear ? mu : std::exp(mu);
  std::vector<double> sigmas;
  for (std::int64_t i = 0; i < steps; ++i) {
    const double even = 1.0 - static_cast<double>(i) / static_cast<double>(steps);
    sigmas.push_back(m / (m + 1.0 / even - 1.0));
  }
  if (shift_terminal && sigmas.back() < 1) {
    const double stretch = (1 - *shift_terminal) / (1 - sigmas.back());
    for (double& sigma : sigmas) sigma = 1 - (1 - sigma) * stretch;
  }
  sigmas.push_back(0.0);
  return sigmas;
}

FlowMatchSchedule parse_flow_match_schedule(const nlohmann::json& config) {
  constexpr const char* kFile = "scheduler_config.json";
  const std::string name = get_string_or(config, "_class_name", "FlowMatchEulerDiscreteScheduler", kFile);
  if (name != "FlowMatchEulerDiscreteScheduler")
    fail("{}: _class_name is {}, expected FlowMatchEulerDiscreteScheduler", kFile, name);
  for (const char* key :
       {"invert_sigmas", "use_karras_sigmas", "use_exponential_sigmas", "use_beta_sigmas", "stochastic_sampling"})
    if (get_bool_or(config, key, false, kFile)) fail("{}: {} is true, expected false", kFile, key);
  const std::string type = get_string_or(config, "time_shift_type", "exponential", kFile);
  if (type != "exponential" && type != "linear")
    fail("{}: time_shift_type is {}, expected exponential or linear", kFile, type);
  FlowMatchSchedule schedule;
  schedule.use_dynamic_shifting = get_bool_or(config, "use_dynamic_shifting", false, kFile);
  schedule.shift = get_double_or(config, "shift", schedule.shift, kFile);
  if (!(schedule.shift > 0)) fail("{}: shift is {}, expected more than 0", kFile, schedule.shift);
  schedule.base_shift = get_double_or(config, "base_shift", schedule.base_shift, kFile);
  schedule.max_shift = get_double_or(config, "max_shift", schedule.max_shift, kFile);
  schedule.base_tokens = get_int_or(config, "base_image_seq_len", schedule.base_tokens, kFile);
  schedule.max_tokens = get_int_or(config, "max_image_seq_len", schedule.max_tokens, kFile);
  if (schedule.base_tokens < 1 || schedule.max_tokens <= schedule.base_tokens)
    fail("{}: base_image_seq_len {} and max_image_seq_len {} must be positive and rising", kFile, schedule.base_tokens,
         schedule.max_tokens);
  schedule.is_linear = type == "linear";
  if (const auto terminal = config.find("shift_terminal"); terminal != config.end() && !terminal->is_null()) {
    schedule.shift_terminal = get_double(config, "shift_terminal", kFile);
    if (!(*schedule.shift_terminal >= 0 && *schedule.shift_terminal < 1))
      fail("{}: shift_terminal is {}, expected 0 to less than 1", kFile, *schedule.shift_terminal);
  }
  return schedule;
}

}  // namespace headroom
