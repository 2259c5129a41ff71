#pragma once

#include <optional>
#include <string>

#include "measure/statistics/statistics.hpp"

namespace headroom {

/// One trial of `auto`: does this switch pay, given the other switches that were on?
struct AutoTrial {
  std::string switch_name;           ///< all switches of a cheaper loop: "sampler=unipc,steps=14"
  std::optional<double> without_ms;  ///< median
  std::optional<double> with_ms;
  std::optional<double> factor;  ///< without / with: over 1 if the switch makes the request faster
  std::optional<Interval> interval;
  std::optional<double> error;  ///< of the set with it, or a cheaper loop's loss; only for switches that are not exact
  bool kept = false;
  std::string why;
  friend bool operator==(const AutoTrial&, const AutoTrial&) = default;
};

}  // namespace headroom
