#include "measure/suites/configuration_name.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "base/switches.hpp"
#include "base/target.hpp"

namespace headroom {
namespace {

using Names = std::vector<std::string>;

/// Kinds of devices that a preset may have been expanded for. If a file does not name the vector units, both with
/// and without bf16 units.
std::vector<Target> targets_of(const Machine& machine, const Configuration& configuration) {
  Target target;
  if (configuration.device == name_of(DeviceKind::kCuda)) {
    target.device = DeviceKind::kCuda;
    target.compute_capability = 90;
    return {target};
  }
  if (const std::optional<CpuIsa> isa = parse_cpu_isa(machine.cpu_isa.value_or(""))) {
    target.cpu_isa = *isa;
    return {target};
  }
  Target widest = target;
  widest.cpu_isa = all_cpu_isas().back();
  return {widest, target};
}

/// The switches of a preset that are for another device. They change nothing. Older programs did not know that
/// switches are specific to a device and requested them.
Names for_other_devices(const SwitchSet& preset, const Target& target) {
  Names names;
  for (const SwitchInfo& info : all_switches())
    if (preset.has(info.name) && info.device && *info.device != target.device) names.emplace_back(info.name);
  return names;
}

/// The largest preset contained in `asked` and the switches beyond it, as one list; empty if there is none.
std::optional<Names> with_preset(const Names& asked, const std::vector<Target>& targets) {
  const auto holds = [](const Names& names, const std::string& name) {
    return std::ranges::find(names, name) != names.end();
  };
  std::optional<Names> shortest;
  for (const Preset& preset : all_presets())
    for (const Target& target : targets) {
      if (preset.switches.empty()) continue;
      const SwitchSet whole = SwitchSet::parse(preset.name);
      const Names meant = whole.for_target(target).names(), others = for_other_devices(whole, target);
      if (meant.empty() || !std::ranges::all_of(meant, [&](const auto& name) { return holds(asked, name); })) continue;
      Names names = {std::string(preset.name)};
      for (const std::string& name : asked)
        if (!holds(meant, name) && !holds(others, name)) names.push_back(name);
      if (!shortest || names.size() < shortest->size()) shortest = std::move(names);
    }
  return shortest;
}

}  // namespace

std::string asked_name(const Machine& machine, const Configuration& configuration) {
  if (configuration.asked.empty()) return "baseline";
  const std::optional<Names> named = with_preset(configuration.asked, targets_of(machine, configuration));
  return fmt::format("{}", fmt::join(named ? *named : configuration.asked, "+"));
}

}  // namespace headroom
