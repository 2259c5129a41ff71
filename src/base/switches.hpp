#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/target.hpp"

namespace headroom {

/// The entry of one optimization in switches.def.
struct SwitchInfo {
  std::string_view name;
  bool exact;                        ///< mathematically equal to the baseline, though not bit-equal
  std::optional<DeviceKind> device;  ///< the only device that it applies to; empty for every device
  std::string_view
      value;  ///< its argument: "N" for a whole number, or the name of a text, in brackets if optional; may be empty
  std::string_view description;

  [[nodiscard]] bool needs_argument() const { return !value.empty() && value.front() != '['; }
};
/// Bytes of an argument that is a text, at most.
inline constexpr std::size_t kMaxSwitchText = 200;
/// All switches, in pipeline order.
[[nodiscard]] std::span<const SwitchInfo> all_switches();

struct Preset {
  std::string_view name;
  std::string_view switches;  ///< as a user would write them
  std::string_view description;
};
[[nodiscard]] std::span<const Preset> all_presets();

/// The switches that are on, in pipeline order, each with its argument.
class SwitchSet {
 public:
  SwitchSet() = default;
  /// Parses "fuse, bf16, steps=8", preset names, or a mixture. Throws a usage Error for an unknown name (listing
  /// similar names, or all), an empty item, a missing, unexpected or invalid argument, and different arguments of
  /// one switch. The preset `auto`, which has no fixed set, is an error too: see SwitchRequest. An explicit
  /// argument overrides the preset's: "fast,fp8=exact".
  [[nodiscard]] static SwitchSet parse(std::string_view list);

  [[nodiscard]] bool has(std::string_view name) const;
  /// The numeric argument of a switch, if it is on.
  [[nodiscard]] std::optional<std::int64_t> number(std::string_view name) const;
  /// The argument of a switch, as written, if it is on.
  [[nodiscard]] std::optional<std::string_view> argument(std::string_view name) const;
  [[nodiscard]] bool empty() const noexcept { return switches_.empty(); }
  /// Each switch as a separate set, in pipeline order.
  [[nodiscard]] std::vector<SwitchSet> singles() const;
  /// The union with `other`; throws a usage Error if their arguments differ.
  [[nodiscard]] SwitchSet with(const SwitchSet& other) const;
  /// This set without the switch of that name.
  [[nodiscard]] SwitchSet without(std::string_view name) const;
  /// This set without switches that only came from a preset and cannot pay off on the target: those for another
  /// device, and bf16 without bf16 units. Explicitly named switches stay, and decline or do what they can.
  [[nodiscard]] SwitchSet for_target(const Target& target) const;
  /// "arena", "steps=8", ...
  [[nodiscard]] std::vector<std::string> names() const;
  /// "arena,fuse,steps=8"; "baseline" if none is on.
  [[nodiscard]] std::string to_string() const;

 private:
  friend struct SwitchRequest;
  struct Entry {
    const SwitchInfo* info;
    std::string argument;
    bool from_preset = false;  // and not named explicitly
  };
  /// parse(); sets `*automatic`, unless null, if `auto` is in the list.
  static SwitchSet read(std::string_view list, bool* automatic);
  void insert(Entry entry);
  std::vector<Entry> switches_;
};

/// A list of switches that may include `auto`, with which a measurement chooses the other switches.
struct SwitchRequest {
  SwitchSet fixed;
  bool automatic = false;

  /// Parses a list as SwitchSet::parse() does, and accepts `auto`.
  [[nodiscard]] static SwitchRequest parse(std::string_view list);
  /// "auto", "steps=8", ...
  [[nodiscard]] std::vector<std::string> names() const;
};

}  // namespace headroom
