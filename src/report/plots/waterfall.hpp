#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "report/plots/option.hpp"

namespace headroom {

/// The value after one more change.
struct WaterfallStep {
  std::string name;
  double value = 0;
  std::optional<Interval> interval;
  std::string text;
  nlohmann::json tip;
  bool is_hollow = false;  ///< its value is not settled
  /// green if its change is known to be for the better (kAbove), purple for the worse, else grey
  Finding change = Finding::kInconclusive;
};

/// Draws the first value from zero, then the decrease or increase of each step, then the last value from zero,
/// labelled `total`.
[[nodiscard]] nlohmann::json waterfall(const std::vector<WaterfallStep>& steps, std::string_view total,
                                       std::string_view axis_name, std::string_view axis_fn);

}  // namespace headroom
