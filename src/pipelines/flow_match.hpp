#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <vector>

namespace headroom {

/// Noise levels of flow matching under Euler's method, as diffusers' FlowMatchEulerDiscreteScheduler with dynamic
/// shifting defines them and FLUX uses them.
struct FlowMatchSchedule {
  double base_shift = 0.5;  ///< at base_tokens
  double max_shift = 1.15;  ///< at max_tokens
  std::int64_t base_tokens = 256;
  std::int64_t max_tokens = 4096;

  /// mu: linear in the number of image tokens (Esser et al., "Scaling Rectified Flow Transformers", 2024,
  /// section 5.3.2).
  [[nodiscard]] double shift(std::int64_t image_tokens) const;
  /// steps + 1 noise levels from 1 down to 0: linspace(1, 1/steps, steps), each moved to e^mu / (e^mu + 1/sigma - 1),
  /// then 0.
  [[nodiscard]] std::vector<double> sigmas(std::int64_t steps, std::int64_t image_tokens) const;
};

/// Reads a scheduler_config.json under diffusers' keys (base_shift, max_shift, base_image_seq_len, max_image_seq_len);
/// missing keys are FLUX's own. Throws Error for another scheduler, or one without dynamic shifting.
[[nodiscard]] FlowMatchSchedule parse_flow_match_schedule(const nlohmann::json& config);

}  // namespace headroom
