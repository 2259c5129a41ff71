#pragma once

#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <vector>

namespace headroom {

/// For each step of a generation whether a step cache had it computed.
using ComputedSteps = std::vector<bool>;

/// By generation the numbers of the steps that were computed.
[[nodiscard]] nlohmann::json numbers_of(std::span<const ComputedSteps> generations);
/// A line for generations that are alike, the most frequent first, of which a few are told: "computed 12 of 28 steps:
/// #...#.." with a # for each that was. Empty where there are none.
[[nodiscard]] std::string tell_computed_steps(std::span<const ComputedSteps> generations);

}  // namespace headroom
