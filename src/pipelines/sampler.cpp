#include "pipelines/sampler.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "base/nearest.hpp"

namespace headroom {
namespace {

constexpr std::array<std::string_view, 8> kSamplerNames = {"euler", "heun", "dpm++2m",         "dpm++2m-sde",
                                                           "unipc", "ddim", "euler-ancestral", "lcm"};

}  // namespace

std::string_view to_string(Sampler sampler) { return kSamplerNames.at(static_cast<std::size_t>(sampler)); }

std::optional<Sampler> find_sampler(std::string_view name) {
  const auto* const found = std::ranges::find(kSamplerNames, name);
  if (found == kSamplerNames.end()) return std::nullopt;
  return static_cast<Sampler>(std::distance(kSamplerNames.begin(), found));
}

Sampler parse_sampler(std::string_view name) {
  if (const std::optional<Sampler> found = find_sampler(name)) return *found;
  const std::vector<std::string> known(kSamplerNames.begin(), kSamplerNames.end());
  fail_usage("switch sampler={}: expected one of {}{}", name, fmt::join(kSamplerNames, ", "),
             did_you_mean(name, known));
}

std::int64_t count_calls(Sampler sampler, std::int64_t steps) {
  return sampler == Sampler::kHeun ? 2 * steps - 1 : steps;
}

}  // namespace headroom
