#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace headroom {

/// The method that turns noise into a sample step by step; sampler_formulas.cpp defines each.
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

/// The argument of the switch `sampler`: "euler", "heun", "dpm++2m", "dpm++2m-sde", "unipc", "ddim", "plms",
/// "euler-ancestral", "lcm", "dpm++2s", "dpm++2s-sde", "dpm++sde", "deis", "lms", "ddpm", "tcd".
[[nodiscard]] std::string_view to_string(Sampler sampler);
[[nodiscard]] std::optional<Sampler> find_sampler(std::string_view name);

/// A parsed argument of the switch `sampler`: "unipc", "unipc:shift=1", or "tcd:eta=0.3".
struct SamplerChoice {
  Sampler sampler = Sampler::kEuler;
  std::optional<double> shift = std::nullopt;  ///< of flow-matching levels, in place of the model's own
  std::optional<double> eta = std::nullopt;    ///< for tcd: the share of a step's noise that is fresh, 0 to 1
  friend bool operator==(const SamplerChoice&, const SamplerChoice&) = default;
};
/// Throws a usage Error that lists the samplers, for any other argument.
[[nodiscard]] SamplerChoice parse_sampler(std::string_view argument);

/// The number of denoiser calls in this many steps. heun and dpm++sde make two calls in each step but the last. PLMS
/// makes two in the first step, if there are more.
[[nodiscard]] std::int64_t count_calls(Sampler sampler, std::int64_t steps);
/// Whether a sampler follows the model's own path from noise to image, so that fewer steps of a better solver end
/// near it. False for samplers that draw fresh noise, and for those that need a distilled model.
[[nodiscard]] bool follows_path(Sampler sampler);

}  // namespace headroom
