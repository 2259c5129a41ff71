#include "pipelines/sampler.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <string>
#include <vector>

#include "base/nearest.hpp"
#include "base/switch_argument.hpp"

namespace headroom {
namespace {

constexpr std::array<std::string_view, 9> kSamplerNames = {"euler", "heun", "dpm++2m",         "dpm++2m-sde", "unipc",
                                                           "ddim",  "plms", "euler-ancestral", "lcm"};

constexpr double kLeastShift = 0.01, kMostShift = 100;

}  // namespace

std::string_view to_string(Sampler sampler) { return kSamplerNames.at(static_cast<std::size_t>(sampler)); }

std::optional<Sampler> find_sampler(std::string_view name) {
  const auto* const found = std::ranges::find(kSamplerNames, name);
  if (found == kSamplerNames.end()) return std::nullopt;
  return static_cast<Sampler>(std::distance(kSamplerNames.begin(), found));
}

SamplerChoice parse_sampler(std::string_view argument) {
  const SwitchArgument text("sampler", argument);
  const std::optional<Sampler> found = find_sampler(text.head());
  if (!found) {
    const std::vector<std::string> known(kSamplerNames.begin(), kSamplerNames.end());
    text.refuse("expected one of {}{}", fmt::join(kSamplerNames, ", "), did_you_mean(text.head(), known));
  }
  SamplerChoice choice{.sampler = *found};
  text.read_keys({{"shift", [&](std::string_view value) {
                     if (choice.shift) text.refuse("the shift is said twice");
                     choice.shift = SwitchArgument::real(value);
                     if (!choice.shift || !(*choice.shift >= kLeastShift && *choice.shift <= kMostShift))
                       text.refuse("shift is '{}', expected a number from {} to {}", value, kLeastShift, kMostShift);
                   }}});
  return choice;
}

std::int64_t count_calls(Sampler sampler, std::int64_t steps) {
  if (sampler == Sampler::kPlms && steps > 1) return steps + 1;
  return sampler == Sampler::kHeun ? 2 * steps - 1 : steps;
}

}  // namespace headroom
