#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <vector>

namespace headroom {

/// Noise levels of flow matching under Euler's method, as diffusers' FlowMatchEulerDiscreteScheduler defines them.
struct FlowMatchSchedule {
  /// Whether levels are shifted by how many tokens an image has, as FLUX.1-dev's are, or always by `shift`.
  bool use_dynamic_shifting = true;
  double shift = 1;
  double base_shift = 0.5;  ///< at base_tokens
  double max_shift = 1.15;  ///< at max_tokens
  std::int64_t base_tokens = 256;
  std::int64_t max_tokens = 4096;
  bool is_linear = false;  ///< time_shift_type: a dynamic shift is mu itself, and not e^mu
  /// Levels are stretched so that the last one before 0 is this.
  std::optional<double> shift_terminal = std::nullopt;

  /// mu: linear in the number of image tokens (Esser et al., "Scaling Rectified Flow Transformers", 2024,
  /// section 5.3.2).
  [[nodiscard]] double dynamic_shift(std::int64_t image_tokens) const;
  /// steps + 1 noise levels from 1 down to 0: linspace(1, 1/steps, steps), each moved to m / (m + 1/sigma - 1), where m
  /// is the shift, then 0.
  [[nodiscard]] std::vector<double> sigmas(std::int64_t steps, std::int64_t image_tokens) const;
};

/// Reads a scheduler_config.json as diffusers writes it, where a missing key means the class's default. Throws Error
/// for another scheduler, and for a way to space levels that is not known here.
[[nodiscard]] FlowMatchSchedule parse_flow_match_schedule(const nlohmann::json& config);

}  // namespace headroom
