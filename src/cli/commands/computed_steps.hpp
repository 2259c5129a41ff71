#pragma once

#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <vector>

namespace headroom {

/// For each step of a generation, whether a step cache computed it.
using ComputedSteps = std::vector<bool>;

/// For each generation, the numbers of the computed steps.
[[nodiscard]] nlohmann::json numbers_of(std::span<const ComputedSteps> generations);
/// One line for each pattern of computed steps, the most frequent patterns first, limited to a few: "computed 12 of
/// 28 steps: #...#.." with a # for each computed step. Empty if there are none.
[[nodiscard]] std::string tell_computed_steps(std::span<const ComputedSteps> generations);

}  // namespace headroom
