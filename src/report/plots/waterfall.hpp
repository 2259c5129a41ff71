#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "report/plots/option.hpp"

namespace headroom {

/// A value after something was added to what came before.
struct WaterfallStep {
  std::string name;
  double value = 0;
  std::optional<Interval> interval;
  std::string text;
  nlohmann::json tip;
  bool is_hollow = false;  ///< its value is no fact
};

/// The first value from zero, then what each step takes away or adds, then the last value from zero with `total`
/// beside it.
[[nodiscard]] nlohmann::json waterfall(const std::vector<WaterfallStep>& steps, std::string_view total,
                                       std::string_view axis_name, std::string_view axis_fn);

}  // namespace headroom
