#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace headroom {

/// How noise becomes a sample, step by step; what they are is in sampler_tables.cpp.
enum class Sampler : std::uint8_t { kEuler, kHeun, kDpm2M, kDpm2MSde, kUniPC, kDdim, kPlms, kEulerAncestral, kLcm };

/// "euler", "heun", "dpm++2m", "dpm++2m-sde", "unipc", "ddim", "plms", "euler-ancestral", "lcm": the arguments of the switch
/// `sampler`.
[[nodiscard]] std::string_view to_string(Sampler sampler);
[[nodiscard]] std::optional<Sampler> find_sampler(std::string_view name);

/// What the argument of the switch `sampler` says: "unipc", or "unipc:shift=1".
struct SamplerChoice {
  Sampler sampler = Sampler::kEuler;
  std::optional<double> shift = std::nullopt;  ///< of levels of flow matching, in place of the model's own
  friend bool operator==(const SamplerChoice&, const SamplerChoice&) = default;
};
/// Throws a usage Error, with the samplers that there are, for what is no such argument.
[[nodiscard]] SamplerChoice parse_sampler(std::string_view argument);

/// How often the denoiser is called in so many steps: Heun's method asks twice in each step but the last, PLMS in the
/// first where there are more.
[[nodiscard]] std::int64_t count_calls(Sampler sampler, std::int64_t steps);

}  // namespace headroom
