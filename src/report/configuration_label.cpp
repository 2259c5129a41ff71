#include "report/configuration_label.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "base/switches.hpp"

namespace headroom {
namespace {

/// The preset's switches that are for a device: "cpu" or "cuda".
std::vector<std::string> switches_for(const Preset& preset, std::string_view device) {
  std::vector<std::string> names;
  for (const std::string& name : SwitchSet::parse(preset.switches).names()) {
    const auto info = std::ranges::find(all_switches(), name, &SwitchInfo::name);
    if (info == all_switches().end() || !info->device || name_of(*info->device) == device) names.push_back(name);
  }
  return names;
}

/// The preset with the most switches that holds more than one and of which all were asked for; no name where there is
/// none.
std::pair<std::string_view, std::vector<std::string>> largest_preset(const Configuration& configuration) {
  std::pair<std::string_view, std::vector<std::string>> largest;
  for (const Preset& preset : all_presets()) {
    std::vector<std::string> names = switches_for(preset, configuration.device);
    const auto is_asked = [&](const std::string& name) {
      return std::ranges::find(configuration.asked, name) != configuration.asked.end();
    };
    if (names.size() > std::max<std::size_t>(largest.second.size(), 1) && std::ranges::all_of(names, is_asked))
      largest = {preset.name, std::move(names)};
  }
  return largest;
}

}  // namespace

std::string configuration_label(const Configuration& configuration) {
  const std::vector<std::string>& asked = configuration.asked;
  if (asked.empty()) return "baseline";
  if (configuration.applied.empty() || std::ranges::find(asked, "auto") != asked.end())
    return fmt::format("{}", fmt::join(asked, "+"));
  const auto [preset, switches] = largest_preset(configuration);
  std::vector<std::string> parts;
  if (!preset.empty()) parts.emplace_back(preset);
  for (const std::string& name : configuration.applied)
    if (std::ranges::find(switches, name) == switches.end()) parts.push_back(name);
  return fmt::format("{}", fmt::join(parts, "+"));
}

}  // namespace headroom
