#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "pipelines/schedules/noise_schedule.hpp"
#include "pipelines/schedules/respacing.hpp"

namespace headroom {

/// How steps of training are chosen for the steps of a sampler: table 2 of Lin et al., "Common Diffusion Noise Schedules
/// and Sample Steps are Flawed", 2024.
enum class TimestepSpacing : std::uint8_t { kLinspace, kLeading, kTrailing };
/// The beta of each step of training: even, even in the square root, or by a cosine (Nichol and Dhariwal, 2021).
enum class BetaSchedule : std::uint8_t { kLinear, kScaledLinear, kCosine };
/// Whose rules the steps are chosen by: diffusers' schedulers differ in them.
enum class DiffusionRules : std::uint8_t {
  kEuler,  ///< EulerDiscreteScheduler, its ancestral form, Heun's and LMSDiscreteScheduler: with fractions between steps
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

/// Noise levels of diffusion (Ho et al., "Denoising Diffusion Probabilistic Models", 2020) as the schedulers of diffusers
/// 0.42.1 define them under numpy 2, but for two things: f32 tables are rounded exactly, where PyTorch 2.15's square root and
/// numpy's logarithm are a last bit off now and then, and a level is the table's entry that it equals in f32, as under numpy 1.26.
/// With trailing timesteps numpy's arange decides how many there are: of 61, 103, 121 and 122 steps it makes one more.
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
  std::int64_t original_steps = 50;  ///< of LCM and TCD: the steps that it was distilled for
  double eta = 0;                    ///< of TCD: how much of a step's noise is fresh, 0 to 1

  /// alpha^2 by step of training, in f32 as diffusers keeps it: what is left of 1 - alpha^2 at the first depends on that.
  [[nodiscard]] std::vector<double> alphas_cumprod() const;
  /// Throws a usage Error for more steps than there are in training.
  [[nodiscard]] NoiseSchedule schedule(std::int64_t steps) const;
  /// `steps` steps from the level of an image of which `strength`, 0 to 1, is noise: timesteps evenly spaced from that
  /// part of the training on, as trailing ones are, with fractions. So the first level is a continuous function of the strength,
  /// whatever the spacing.
  [[nodiscard]] NoiseSchedule schedule_from(double strength, std::int64_t steps) const;
};

}  // namespace headroom
