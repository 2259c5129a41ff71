#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace headroom {

/// What a denoiser says of a sample x = alpha x0 + sigma n: the noise n; v = alpha n - sigma x0 (Salimans and Ho,
/// "Progressive Distillation", 2022, appendix D); or, of flow matching, the velocity n - x0.
enum class Prediction : std::uint8_t { kEpsilon, kV, kFlow };

/// How much of an image and of noise a sample holds: x = alpha x0 + sigma n. Of diffusion alpha^2 + sigma^2 is 1, and of
/// flow matching alpha + sigma.
struct NoiseLevel {
  double alpha = 0;
  double sigma = 1;
  friend bool operator==(const NoiseLevel&, const NoiseLevel&) = default;
};

/// The level of an image.
inline constexpr NoiseLevel kNoNoise{.alpha = 1, .sigma = 0};

/// One step of a sampler.
struct NoiseStep {
  double timestep = 0;  ///< what the denoiser is given at `from`, in steps of training, of which there are mostly 1000
  NoiseLevel from;
  NoiseLevel to;
  /// Of tcd the level that noise is added at to reach `to`; of plms the one that its first step is made again from.
  std::optional<NoiseLevel> through = std::nullopt;
  double middle_timestep = 0;  ///< of dpm++sde: the timestep half way to `to` in ln(sigma / alpha)
};

/// All steps, from noise to an image.
struct NoiseSchedule {
  Prediction prediction = Prediction::kFlow;
  std::vector<NoiseStep> steps;
  double noise_scale = 1;    ///< the standard deviation of the noise that the first step is given
  std::int64_t skipped = 0;  ///< steps that were before the first one, where the sample begins as an image with noise

  /// Leaves out the first `count` steps, of which there must be more.
  void skip(std::int64_t count) {
    steps.erase(steps.begin(), steps.begin() + count);
    skipped += count;
  }
};

/// The level of diffusion at which noise is `ratio` times as large as the image: sigma / alpha.
[[nodiscard]] NoiseLevel level_of_ratio(double ratio);
/// The level of flow matching.
[[nodiscard]] inline NoiseLevel level_of_flow(double sigma) { return {.alpha = 1 - sigma, .sigma = sigma}; }

}  // namespace headroom
