#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "pipelines/schedules/noise_schedule.hpp"
#include "pipelines/schedules/respacing.hpp"

namespace headroom {

/// How training steps are chosen for the steps of a sampler: table 2 of Lin et al., "Common Diffusion Noise Schedules
/// and Sample Steps are Flawed", 2024.
enum class TimestepSpacing : std::uint8_t { kLinspace, kLeading, kTrailing };
/// The beta of each training step: linear, linear in the square root, or by a cosine (Nichol and Dhariwal, 2021).
enum class BetaSchedule : std::uint8_t { kLinear, kScaledLinear, kCosine };
/// The class in diffusers whose rules choose the steps; the schedulers differ in them.
enum class DiffusionRules : std::uint8_t {
  kEuler,       ///< EulerDiscreteScheduler, its ancestral form, Heun's and LMSDiscreteScheduler: fractional timesteps
  kDpmSde,      ///< DPMSolverSDEScheduler
  kDpmSolver,   ///< DPMSolverMultistepScheduler
  kSinglestep,  ///< DPMSolverSinglestepScheduler
  kUniPC,       ///< UniPCMultistepScheduler
  kDeis,        ///< DEISMultistepScheduler
  kDdim,        ///< DDIMScheduler
  kPndm,        ///< PNDMScheduler
  kDdpm,        ///< DDPMScheduler
  kLcm,         ///< LCMScheduler
  kTcd,         ///< TCDScheduler
};

/// Noise levels of diffusion (Ho et al., "Denoising Diffusion Probabilistic Models", 2020) as the schedulers of
/// diffusers 0.42.1 define them under numpy 2, with two differences. First, f32 tables are rounded exactly; PyTorch
/// 2.15's square root and numpy's logarithm are sometimes off in the last bit. Second, a level is the table entry
/// that it equals in f32, as under numpy 1.26. With trailing timesteps, numpy's arange decides their number: 61, 103,
/// 121 and 122 steps give one more.
struct DiffusionSchedule {
  DiffusionRules rules = DiffusionRules::kEuler;
  Prediction prediction = Prediction::kEpsilon;
  std::int64_t train_timesteps = 1000;
  double beta_start = 0.0001;
  double beta_end = 0.02;
  BetaSchedule beta_schedule = BetaSchedule::kLinear;
  bool rescale_betas_zero_snr = false;  ///< the last training step is pure noise
  TimestepSpacing spacing = TimestepSpacing::kLinspace;
  std::int64_t steps_offset = 0;
  Respacing respacing = {};
  bool ends_at_least_noise = false;  ///< final_sigmas_type sigma_min: the result is at the first training step
  bool set_alpha_to_one = true;      ///< for DDIM; otherwise its result is at the first training step too
  /// For DPM-Solver: ln(alpha / sigma) of noise.
  double lambda_min_clipped = -std::numeric_limits<double>::infinity();
  std::int64_t original_steps = 50;  ///< for LCM and TCD: the steps that the model was distilled for
  double eta = 0;                    ///< for TCD: the share of a step's noise that is fresh, 0 to 1

  /// alpha^2 by training step, in f32 as in diffusers: the remainder 1 - alpha^2 at the first step depends on that
  /// rounding.
  [[nodiscard]] std::vector<double> alphas_cumprod() const;
  /// Throws a usage Error for more steps than training had.
  [[nodiscard]] NoiseSchedule schedule(std::int64_t steps) const;
  /// `steps` steps from the level of an image of which `strength`, 0 to 1, is noise. Timesteps are evenly spaced from
  /// that part of the training on, like trailing ones, with fractions. The first level is therefore a continuous
  /// function of the strength, for every spacing.
  [[nodiscard]] NoiseSchedule schedule_from(double strength, std::int64_t steps) const;
};

}  // namespace headroom
