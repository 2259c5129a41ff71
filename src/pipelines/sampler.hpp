#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace headroom {

/// How noise becomes a sample, step by step; what they are is in sampler_tables.cpp.
enum class Sampler : std::uint8_t { kEuler, kHeun, kDpm2M, kDpm2MSde, kUniPC, kDdim, kEulerAncestral, kLcm };

/// "euler", "heun", "dpm++2m", "dpm++2m-sde", "unipc", "ddim", "euler-ancestral", "lcm": the arguments of the switch `sampler`.
[[nodiscard]] std::string_view to_string(Sampler sampler);
[[nodiscard]] std::optional<Sampler> find_sampler(std::string_view name);
/// The sampler of that name. Throws a usage Error, with those that there are, where there is none.
[[nodiscard]] Sampler parse_sampler(std::string_view name);

/// How often the denoiser is called in so many steps: Heun's method asks twice in each step but the last.
[[nodiscard]] std::int64_t count_calls(Sampler sampler, std::int64_t steps);

}  // namespace headroom
