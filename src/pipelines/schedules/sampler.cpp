#include "pipelines/schedules/sampler.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <string>
#include <vector>

#include "base/switch_argument.hpp"
#include "base/text/nearest.hpp"

namespace headroom {
namespace {

constexpr std::array<std::string_view, kSamplers> kSamplerNames = {
    "euler", "heun",    "dpm++2m",     "dpm++2m-sde", "unipc", "ddim", "plms", "euler-ancestral",
    "lcm",   "dpm++2s", "dpm++2s-sde", "dpm++sde",    "deis",  "lms",  "ddpm", "tcd"};

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
  const auto read = [&](const char* name, std::optional<double>& number, double least, double most) {
    return [&text, &number, name, least, most](std::string_view value) {
      if (number) text.refuse("the {} is said twice", name);
      number = SwitchArgument::real(value);
      if (!number || !(*number >= least && *number <= most))
        text.refuse("{} is '{}', expected a number from {} to {}", name, value, least, most);
    };
  };
  text.read_keys(
      {{"shift", read("shift", choice.shift, kLeastShift, kMostShift)}, {"eta", read("eta", choice.eta, 0, 1)}});
  if (choice.eta && choice.sampler != Sampler::kTcd) text.refuse("eta is of tcd");
  return choice;
}

std::int64_t count_calls(Sampler sampler, std::int64_t steps) {
  if (sampler == Sampler::kPlms && steps > 1) return steps + 1;
  return sampler == Sampler::kHeun || sampler == Sampler::kDpmSde ? 2 * steps - 1 : steps;
}

bool follows_path(Sampler sampler) {
  switch (sampler) {
    case Sampler::kEulerAncestral:
    case Sampler::kLcm:
    case Sampler::kDpm2MSde:
    case Sampler::kDpm2SSde:
    case Sampler::kDpmSde:
    case Sampler::kDdpm:
    case Sampler::kTcd:
      return false;
    default:
      return true;
  }
}

}  // namespace headroom
