#include "pipelines/sampler.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <iterator>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "base/nearest.hpp"

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
  const std::string_view name = argument.substr(0, argument.find(':'));
  const std::optional<Sampler> found = find_sampler(name);
  if (!found) {
    const std::vector<std::string> known(kSamplerNames.begin(), kSamplerNames.end());
    fail_usage("switch sampler={}: expected one of {}{}", argument, fmt::join(kSamplerNames, ", "),
               did_you_mean(name, known));
  }
  SamplerChoice choice{.sampler = *found};
  if (const std::string_view rest = argument.substr(name.size()); !rest.empty()) {
    constexpr std::string_view kKey = ":shift=";
    double shift = 0;
    const char* const end = rest.data() + rest.size();
    const bool is_number = rest.starts_with(kKey) && rest.size() > kKey.size() &&
                           std::from_chars(rest.data() + kKey.size(), end, shift).ptr == end;
    if (!is_number || !(shift >= kLeastShift && shift <= kMostShift))
      fail_usage("switch sampler={}: expected {} or {}:shift=S with S from {} to {}", argument, name, name, kLeastShift,
                 kMostShift);
    choice.shift = shift;
  }
  return choice;
}

std::int64_t count_calls(Sampler sampler, std::int64_t steps) {
  if (sampler == Sampler::kPlms && steps > 1) return steps + 1;
  return sampler == Sampler::kHeun ? 2 * steps - 1 : steps;
}

}  // namespace headroom
