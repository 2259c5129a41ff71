#include "base/switches.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <ranges>

#include "base/error.hpp"
#include "base/text/list.hpp"
#include "base/text/nearest.hpp"

namespace headroom {
namespace {

constexpr std::optional<DeviceKind> kEvery = std::nullopt;
constexpr std::optional<DeviceKind> kCpu = DeviceKind::kCpu;
constexpr std::optional<DeviceKind> kCuda = DeviceKind::kCuda;
constexpr std::array kSwitches = {
#define HR_SWITCH(name, exact, device, value, description) SwitchInfo{name, exact, device, value, description},
#include "base/switches.def"
#undef HR_SWITCH
};

constexpr std::string_view kAuto = "auto";

constexpr std::array kPresets = {
    Preset{"baseline", "", "no optimization: one library or vectorized kernel per plain op"},
    Preset{"lossless", "arena,flash,fuse,hoist,align,channels-last,tile,streams,graph",
           "every exact switch but packed, which saves memory alone"},
    Preset{"fast", "arena,flash,fuse,hoist,bf16,int8,fp8,align,channels-last,tile,streams,graph",
           "lossless plus what the machine has units for: bfloat16 and, in 8 bits, int8 on CPUs and FP8 on GPUs"},
    Preset{kAuto, "", "the fastest set measured on this machine, within a limit on the error"},
};

constexpr std::int64_t kMaxArgument = 10'000;

/// Parses the argument as a whole number in [1, kMaxArgument]; throws a usage Error otherwise.
std::int64_t parse_number(const SwitchInfo& info, std::string_view argument) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(argument.data(), argument.data() + argument.size(), number);
  if (error != std::errc{} || end != argument.data() + argument.size() || number < 1 || number > kMaxArgument)
    fail_usage("switch {}={}: expected a whole number from 1 to {}", info.name, argument, kMaxArgument);
  return number;
}

/// Throws a usage Error for an argument that the switch cannot have. The content of a text is checked where the
/// switch is applied.
void check_argument(const SwitchInfo& info, std::string_view argument) {
  if (info.value == "N") {
    static_cast<void>(parse_number(info, argument));
    return;
  }
  if (argument.empty()) fail_usage("switch {0}: expected {0}={1}", info.name, info.value);
  if (argument.size() > kMaxSwitchText)
    fail_usage("switch {}: its argument has {} bytes, expected at most {}", info.name, argument.size(), kMaxSwitchText);
}

/// Rejects a name that is neither a switch nor a preset.
[[noreturn]] void refuse_unknown(std::string_view item, std::string_view name) {
  std::vector<std::string> known;
  for (const SwitchInfo& info : kSwitches) known.emplace_back(info.name);
  for (const Preset& preset : kPresets) known.emplace_back(preset.name);
  if (const std::string meant = did_you_mean(name, known); !meant.empty())
    fail_usage("unknown switch '{}'{}", item, meant);
  fail_usage("unknown switch '{}': there are {}, and the presets {}", item,
             fmt::join(kSwitches | std::views::transform(&SwitchInfo::name), ", "),
             fmt::join(kPresets | std::views::transform(&Preset::name), ", "));
}

}  // namespace

std::span<const SwitchInfo> all_switches() { return kSwitches; }
std::span<const Preset> all_presets() { return kPresets; }

SwitchSet SwitchSet::parse(std::string_view list) { return read(list, nullptr); }

SwitchSet SwitchSet::read(std::string_view list, bool* automatic) {
  SwitchSet set;
  for (const std::string& item : split_list(list, "switches")) {
    const std::string_view name = std::string_view(item).substr(0, item.find('='));
    if (item == kAuto) {
      if (automatic == nullptr) fail_usage("the preset auto is not available here: give the switches themselves");
      *automatic = true;
      continue;
    }
    if (const auto preset = std::ranges::find(kPresets, item, &Preset::name); preset != kPresets.end()) {
      SwitchSet meant = parse(preset->switches);
      for (Entry& entry : meant.switches_) entry.from_preset = true;
      set = set.with(meant);
      continue;
    }
    const auto info = std::ranges::find(kSwitches, name, &SwitchInfo::name);
    if (info == kSwitches.end()) refuse_unknown(item, name);
    const bool has_argument = item.size() > name.size();
    const std::string argument = has_argument ? item.substr(name.size() + 1) : "";
    if (info->value.empty() && has_argument) fail_usage("switch {} takes no argument, got '{}'", name, item);
    if (info->needs_argument() && !has_argument) fail_usage("switch {0} needs an argument: {0}={1}", name, info->value);
    if (has_argument) check_argument(*info, argument);
    set.insert({.info = info, .argument = argument});
  }
  return set;
}

void SwitchSet::insert(Entry entry) {
  const auto same = std::ranges::find(switches_, entry.info, &Entry::info);
  if (same != switches_.end()) {
    if (same->from_preset != entry.from_preset) {  // explicitly named switches override those of presets
      if (same->from_preset) same->argument = entry.argument;
      same->from_preset = false;
      return;
    }
    if (same->argument != entry.argument)
      fail_usage("switch {0} is given twice with different arguments: {0}={1} and {0}={2}", entry.info->name,
                 same->argument, entry.argument);
    return;
  }
  const auto place = std::ranges::upper_bound(switches_, entry.info, {}, &Entry::info);  // keeps pipeline order
  switches_.insert(place, std::move(entry));
}

bool SwitchSet::has(std::string_view name) const {
  return std::ranges::any_of(switches_, [&](const Entry& entry) { return entry.info->name == name; });
}

std::optional<std::int64_t> SwitchSet::number(std::string_view name) const {
  for (const Entry& entry : switches_)
    if (entry.info->name == name) return parse_number(*entry.info, entry.argument);
  return std::nullopt;
}

std::optional<std::string_view> SwitchSet::argument(std::string_view name) const {
  for (const Entry& entry : switches_)
    if (entry.info->name == name) return entry.argument;
  return std::nullopt;
}

std::vector<SwitchSet> SwitchSet::singles() const {
  std::vector<SwitchSet> singles;
  for (const Entry& entry : switches_) singles.emplace_back().switches_.push_back(entry);
  return singles;
}

SwitchSet SwitchSet::with(const SwitchSet& other) const {
  SwitchSet both = *this;
  for (const Entry& entry : other.switches_) both.insert(entry);
  return both;
}

SwitchSet SwitchSet::without(std::string_view name) const {
  SwitchSet rest = *this;
  std::erase_if(rest.switches_, [&](const Entry& entry) { return entry.info->name == name; });
  return rest;
}

SwitchSet SwitchSet::for_target(const Target& target) const {
  const auto may_pay = [&](const SwitchInfo& info) {
    if (info.device && *info.device != target.device) return false;
    return info.name != "bf16" || obstacle_to(Capability::kBf16Units, target).empty();
  };
  SwitchSet rest = *this;
  std::erase_if(rest.switches_, [&](const Entry& entry) { return entry.from_preset && !may_pay(*entry.info); });
  return rest;
}

std::vector<std::string> SwitchSet::names() const {
  std::vector<std::string> names;
  for (const Entry& entry : switches_)
    names.push_back(entry.argument.empty() ? std::string(entry.info->name)
                                           : fmt::format("{}={}", entry.info->name, entry.argument));
  return names;
}

std::string SwitchSet::to_string() const {
  return switches_.empty() ? "baseline" : fmt::format("{}", fmt::join(names(), ","));
}

SwitchRequest SwitchRequest::parse(std::string_view list) {
  SwitchRequest request;
  request.fixed = SwitchSet::read(list, &request.automatic);
  return request;
}

std::vector<std::string> SwitchRequest::names() const {
  std::vector<std::string> names = fixed.names();
  if (automatic) names.insert(names.begin(), std::string(kAuto));
  return names;
}

}  // namespace headroom
