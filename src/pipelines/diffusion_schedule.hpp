#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "pipelines/noise_schedule.hpp"
#include "pipelines/respacing.hpp"

namespace headroom {

/// How steps of training are chosen for the steps of a sampler: table 2 of Lin et al., "Common Diffusion Noise Schedules
/// and Sample Steps are Flawed", 2024.
enum class TimestepSpacing : std::uint8_t { kLinspace, kLeading, kTrailing };
/// The beta of each step of training: even, even in the square root, or by a cosine (Nichol and Dhariwal, 2021).
enum class BetaSchedule : std::uint8_t { kLinear, kScaledLinear, kCosine };
/// Whose rules the steps are chosen by: diffusers' schedulers differ in them.
enum class DiffusionRules : std::uint8_t {
  kEuler,      ///< EulerDiscreteScheduler, its ancestral form and HeunDiscreteScheduler: with fractions between steps
  kDpmSolver,  ///< DPMSolverMultistepScheduler
  kUniPC,      ///< UniPCMultistepScheduler
  kDdim,       ///< DDIMScheduler
  kLcm,        ///< LCMScheduler
};

/// Noise levels of diffusion (Ho et al., "Denoising Diffusion Probabilistic Models", 2020) as diffusers' schedulers
/// define them.
struct DiffusionSchedule {
  DiffusionRules rules = DiffusionRules::kEuler;
  Prediction prediction = Prediction::kEpsilon;
  std::int64_t train_timesteps = 1000;
  double beta_start = 0.0001;
  double beta_end = 0.02;
  BetaSchedule beta_schedule = BetaSchedule::kLinear;
  bool rescale_betas_zero_snr = false;  ///< the last step of training is noise alone
  TimestepSpacing spacing = TimestepSpacing::kLinspace;
  std::int64_t steps_offset = 0;
  Respacing respacing = {};
  bool ends_at_least_noise = false;  ///< final_sigmas_type sigma_min: the sample is at the first step of training
  bool set_alpha_to_one = true;      ///< of DDIM: otherwise it is there too
  double lambda_min_clipped = -std::numeric_limits<double>::infinity();  ///< of DPM-Solver: ln(alpha / sigma) of noise
  std::int64_t original_steps = 50;  ///< of LCM: the steps that it was distilled for

  /// alpha^2 by step of training, in f32 as diffusers keeps it: what is left of 1 - alpha^2 at the first depends on that.
  [[nodiscard]] std::vector<double> alphas_cumprod() const;
  /// Throws a usage Error for more steps than there are in training.
  [[nodiscard]] NoiseSchedule schedule(std::int64_t steps) const;
};

}  // namespace headroom
