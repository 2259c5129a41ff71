#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/target.hpp"

namespace headroom {

/// What switches.def says about one optimization.
struct SwitchInfo {
  std::string_view name;
  bool exact;                        ///< mathematically equal to the baseline, though not bit-equal
  std::optional<DeviceKind> device;  ///< the only one it is for; nothing where it is for every device
  std::string_view
      value;  ///< its argument: "N", a whole number, or what a text is, in brackets where it may be left out; or empty
  std::string_view description;

  [[nodiscard]] bool needs_argument() const { return !value.empty() && value.front() != '['; }
};
/// All switches, in pipeline order.
[[nodiscard]] std::span<const SwitchInfo> all_switches();

struct Preset {
  std::string_view name;
  std::string_view switches;  ///< as a user would write them
  std::string_view description;
};
[[nodiscard]] std::span<const Preset> all_presets();

/// A set of switches that are on, in pipeline order, each with its argument.
class SwitchSet {
 public:
  SwitchSet() = default;
  /// Reads "fuse, bf16, steps=8" or preset names, which may be mixed. Throws a usage Error on an unknown name (with
  /// those that are near, or all), an empty item, a missing, unwanted or absurd argument, one switch given two
  /// different arguments, and on the preset `auto`, which stands for no fixed set: see SwitchRequest. An argument that is
  /// given goes before the preset's: "fast,fp8=exact".
  [[nodiscard]] static SwitchSet parse(std::string_view list);

  [[nodiscard]] bool has(std::string_view name) const;
  /// The argument of a switch that takes a number, if it is on.
  [[nodiscard]] std::optional<std::int64_t> number(std::string_view name) const;
  /// The argument of a switch, as written, if it is on.
  [[nodiscard]] std::optional<std::string_view> argument(std::string_view name) const;
  [[nodiscard]] bool empty() const noexcept { return switches_.empty(); }
  /// Each switch as a set of its own, in pipeline order.
  [[nodiscard]] std::vector<SwitchSet> singles() const;
  /// This set and `other`; throws a usage Error where they disagree.
  [[nodiscard]] SwitchSet with(const SwitchSet& other) const;
  /// This set but for the switch of that name.
  [[nodiscard]] SwitchSet without(std::string_view name) const;
  /// This set without what only a preset brought along and cannot pay on the target: what is for another device, and
  /// bf16 where no unit computes in it. What was named itself stays, and declines or does what it can.
  [[nodiscard]] SwitchSet for_target(const Target& target) const;
  /// "arena", "steps=8", ...
  [[nodiscard]] std::vector<std::string> names() const;
  /// "arena,fuse,steps=8"; "baseline" where none is on.
  [[nodiscard]] std::string to_string() const;

 private:
  friend struct SwitchRequest;
  struct Entry {
    const SwitchInfo* info;
    std::string argument;
    bool from_preset = false;  // and not named itself
  };
  /// parse(), with `auto` noted in `*automatic` where that is not null.
  static SwitchSet read(std::string_view list, bool* automatic);
  void insert(Entry entry);
  std::vector<Entry> switches_;
};

/// A list of switches of which `auto` may be one: then a measurement chooses what is on beside the others.
struct SwitchRequest {
  SwitchSet fixed;
  bool automatic = false;

  /// Reads a list as SwitchSet::parse() does, and `auto`.
  [[nodiscard]] static SwitchRequest parse(std::string_view list);
  /// "auto", "steps=8", ...
  [[nodiscard]] std::vector<std::string> names() const;
};

}  // namespace headroom
