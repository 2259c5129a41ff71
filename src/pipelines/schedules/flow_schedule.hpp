#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "pipelines/schedules/noise_schedule.hpp"
#include "pipelines/schedules/respacing.hpp"

namespace headroom {

/// From where to where the levels of flow matching go, evenly, before they are shifted.
enum class FlowSpacing : std::uint8_t {
  kEven,  ///< 1 to 1/steps: FLUX's pipelines and Qwen's hand them to the scheduler
  kOwn,   ///< FlowMatchEulerDiscreteScheduler's own, which has shifted both ends once already where the shift is fixed
  kDpmSolver,  ///< DPMSolverMultistepScheduler's, from 1 - 1/train_timesteps
  kUniPC,      ///< UniPCMultistepScheduler's, from 1 - 1e-6
};

/// Noise levels of flow matching as diffusers' schedulers define them.
struct FlowSchedule {
  FlowSpacing spacing = FlowSpacing::kEven;
  double train_timesteps = 1000;
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
  Respacing respacing = {};
  bool ends_at_last = false;  ///< the sample is at the last level before 0, instead of at 0

  /// mu: linear in the number of image tokens (Esser et al., "Scaling Rectified Flow Transformers", 2024,
  /// section 5.3.2).
  [[nodiscard]] double dynamic_shift(std::int64_t image_tokens) const;
  /// steps + 1 noise levels from 1 down to 0: each of those that the spacing gives moved to m / (m + (1/sigma - 1)), where
  /// m is the shift, then 0.
  [[nodiscard]] std::vector<double> sigmas(std::int64_t steps, std::int64_t image_tokens) const;
  [[nodiscard]] NoiseSchedule schedule(std::int64_t steps, std::int64_t image_tokens) const;
};

}  // namespace headroom
