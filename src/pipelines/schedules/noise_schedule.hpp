#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace headroom {

/// The denoiser's prediction for a sample x = alpha x0 + sigma n: the noise n; v = alpha n - sigma x0 (Salimans and
/// Ho, "Progressive Distillation", 2022, appendix D); or, for flow matching, the velocity n - x0.
enum class Prediction : std::uint8_t { kEpsilon, kV, kFlow };

/// The shares of image and noise in a sample: x = alpha x0 + sigma n. Diffusion has alpha^2 + sigma^2 = 1, flow
/// matching has alpha + sigma = 1.
struct NoiseLevel {
  double alpha = 0;
  double sigma = 1;
  friend bool operator==(const NoiseLevel&, const NoiseLevel&) = default;
};

/// The level of an image.
inline constexpr NoiseLevel kNoNoise{.alpha = 1, .sigma = 0};

/// One step of a sampler.
struct NoiseStep {
  double timestep = 0;  ///< the denoiser's input at `from`, in training steps, of which there are mostly 1000
  NoiseLevel from;
  NoiseLevel to;
  /// For tcd: the level at which noise is added to reach `to`. For plms: the level from which its first step is
  /// repeated.
  std::optional<NoiseLevel> through = std::nullopt;
  double middle_timestep = 0;  ///< for dpm++sde: the timestep at the midpoint to `to` in ln(sigma / alpha)
};

/// All steps, from noise to an image.
struct NoiseSchedule {
  Prediction prediction = Prediction::kFlow;
  std::vector<NoiseStep> steps;
  double noise_scale = 1;    ///< the standard deviation of the noise that the first step reads
  std::int64_t skipped = 0;  ///< steps left out before the first one, if the sample starts as an image with noise

  /// Leaves out the first `count` steps; more than `count` must exist.
  void skip(std::int64_t count) {
    steps.erase(steps.begin(), steps.begin() + count);
    skipped += count;
  }
};

/// The diffusion level at which noise is `ratio` times as large as the image: sigma / alpha.
[[nodiscard]] NoiseLevel level_of_ratio(double ratio);
/// The flow-matching level.
[[nodiscard]] inline NoiseLevel level_of_flow(double sigma) { return {.alpha = 1 - sigma, .sigma = sigma}; }

/// Throws Error unless every step starts from noise, more than 0 and at most 1, and its timestep is a number. `cause`
/// names the numbers of scheduler_config.json that the levels come from, as in "a shift of 3".
void check_levels(const NoiseSchedule& schedule, std::string_view cause);

}  // namespace headroom
