#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "pipelines/schedules/noise_schedule.hpp"
#include "pipelines/schedules/respacing.hpp"

namespace headroom {

/// The first and last level of flow matching before the shift; the levels between are evenly spaced.
enum class FlowSpacing : std::uint8_t {
  kEven,       ///< 1 to 1/steps: the pipelines of FLUX and Qwen pass these to the scheduler
  kOwn,        ///< FlowMatchEulerDiscreteScheduler's own; with a fixed shift, both ends were already shifted once
  kDpmSolver,  ///< DPMSolverMultistepScheduler's, from 1 - 1/train_timesteps
  kUniPC,      ///< UniPCMultistepScheduler's, from 1 - 1e-6
};

/// Noise levels of flow matching as diffusers' schedulers define them.
struct FlowSchedule {
  FlowSpacing spacing = FlowSpacing::kEven;
  double train_timesteps = 1000;
  /// Whether the shift depends on the number of image tokens, as in FLUX.1-dev, or is always `shift`.
  bool use_dynamic_shifting = true;
  double shift = 1;
  double base_shift = 0.5;  ///< at base_tokens
  double max_shift = 1.15;  ///< at max_tokens
  std::int64_t base_tokens = 256;
  std::int64_t max_tokens = 4096;
  bool is_linear = false;  ///< time_shift_type: a dynamic shift is mu itself instead of e^mu
  /// A dynamic shift depends on the number of steps too, and not on the lengths and shifts above: FLUX.2's.
  bool is_by_steps = false;
  /// Levels are stretched so that the last one before 0 has this value.
  std::optional<double> shift_terminal = std::nullopt;
  Respacing respacing = {};
  bool ends_at_last = false;  ///< the result is at the last level before 0, instead of at 0

  /// mu: linear in the number of image tokens (Esser et al., "Scaling Rectified Flow Transformers", 2024,
  /// section 5.3.2); by steps, also in their number, as diffusers' compute_empirical_mu.
  [[nodiscard]] double dynamic_shift(std::int64_t image_tokens, std::int64_t steps) const;
  /// m: `shift`, or e^mu or mu.
  [[nodiscard]] double shift_at(std::int64_t image_tokens, std::int64_t steps) const;
  /// steps + 1 noise levels from 1 down to 0: each level sigma of the spacing becomes m / (m + (1/sigma - 1)), where
  /// m is the shift. The last one is 0.
  [[nodiscard]] std::vector<double> sigmas(std::int64_t steps, std::int64_t image_tokens) const;
  /// Throws Error for a shift that makes no noise levels.
  [[nodiscard]] NoiseSchedule schedule(std::int64_t steps, std::int64_t image_tokens) const;
};

}  // namespace headroom
