#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace headroom {

/// How noise becomes a sample, step by step; what they are is in sampler_tables.cpp.
enum class Sampler : std::uint8_t {
  kEuler,
  kHeun,
  kDpm2M,
  kDpm2MSde,
  kUniPC,
  kDdim,
  kPlms,
  kEulerAncestral,
  kLcm,
  kDpm2S,     ///< DPMSolverSinglestepScheduler
  kDpm2SSde,  ///< the same with fresh noise
  kDpmSde,    ///< DPMSolverSDEScheduler
  kDeis,
  kLms,
  kDdpm,
  kTcd,
};
inline constexpr std::size_t kSamplers = 16;

/// "euler", "heun", "dpm++2m", "dpm++2m-sde", "unipc", "ddim", "plms", "euler-ancestral", "lcm", "dpm++2s", "dpm++2s-sde",
/// "dpm++sde", "deis", "lms", "ddpm", "tcd": the arguments of the switch `sampler`.
[[nodiscard]] std::string_view to_string(Sampler sampler);
[[nodiscard]] std::optional<Sampler> find_sampler(std::string_view name);

/// What the argument of the switch `sampler` says: "unipc", "unipc:shift=1", or "tcd:eta=0.3".
struct SamplerChoice {
  Sampler sampler = Sampler::kEuler;
  std::optional<double> shift = std::nullopt;  ///< of levels of flow matching, in place of the model's own
  std::optional<double> eta = std::nullopt;    ///< of tcd: how much of a step's noise is fresh, 0 to 1
  friend bool operator==(const SamplerChoice&, const SamplerChoice&) = default;
};
/// Throws a usage Error, with the samplers that there are, for what is no such argument.
[[nodiscard]] SamplerChoice parse_sampler(std::string_view argument);

/// How often the denoiser is called in so many steps: heun and dpm++sde ask twice in each step but the last, PLMS in the
/// first where there are more.
[[nodiscard]] std::int64_t count_calls(Sampler sampler, std::int64_t steps);
/// Whether a sampler follows the model's own path from noise to image, so that fewer steps of a better solver end near it: not
/// one that draws fresh noise, or is for models that were distilled for it.
[[nodiscard]] bool follows_path(Sampler sampler);

}  // namespace headroom
