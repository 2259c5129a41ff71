#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "measure/statistics/statistics.hpp"

namespace headroom {

/// One question that was asked: does this switch pay, beside the others that were on at the time?
struct AutoTrial {
  std::string switch_name;           ///< of a cheaper loop all its switches: "sampler=unipc,steps=14"
  std::optional<double> without_ms;  ///< median
  std::optional<double> with_ms;
  std::optional<double> factor;  ///< without / with: over 1 where the switch makes it faster
  std::optional<Interval> interval;
  std::optional<double> error;  ///< of the set with it, or a cheaper loop's loss; only where a switch is not exact
  bool kept = false;
  std::string why;
  friend bool operator==(const AutoTrial&, const AutoTrial&) = default;
};

/// As results, plans and the cache of choices have it.
[[nodiscard]] nlohmann::json to_json(const AutoTrial& trial);
/// Throws Error, naming `place`, for what is none.
[[nodiscard]] AutoTrial read_auto_trial(const nlohmann::json& object, const std::string& place);

}  // namespace headroom
