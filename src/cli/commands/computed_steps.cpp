#include "cli/commands/computed_steps.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/text/format.hpp"

namespace headroom {

nlohmann::json numbers_of(std::span<const ComputedSteps> generations) {
  nlohmann::json array = nlohmann::json::array();
  for (const ComputedSteps& computed : generations) {
    nlohmann::json numbers = nlohmann::json::array();
    for (std::size_t step = 0; step < computed.size(); ++step)
      if (computed[step]) numbers.push_back(step);
    array.push_back(std::move(numbers));
  }
  return array;
}

std::string tell_computed_steps(std::span<const ComputedSteps> generations) {
  constexpr std::size_t kMostReported = 4;
  std::vector<std::pair<ComputedSteps, std::int64_t>> alike;
  for (const ComputedSteps& computed : generations) {
    const auto same = std::ranges::find(alike, computed, &std::pair<ComputedSteps, std::int64_t>::first);
    if (same != alike.end())
      ++same->second;
    else
      alike.emplace_back(computed, 1);
  }
  std::ranges::stable_sort(alike, std::greater(), &std::pair<ComputedSteps, std::int64_t>::second);
  alike.resize(std::min(alike.size(), kMostReported));
  std::string text;
  for (const auto& [computed, count] : alike) {
    std::string marks;
    for (const bool is_computed : computed) marks += is_computed ? '#' : '.';
    text += fmt::format("computed {} of {}: {}{}\n", std::ranges::count(computed, true),
                        format_count(std::ssize(computed), "step"), marks,
                        generations.size() == 1 ? "" : fmt::format(" in {}", format_count(count, "generation")));
  }
  return text;
}

}  // namespace headroom
