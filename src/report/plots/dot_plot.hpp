#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "measure/statistics/statistics.hpp"

/// Charts that compare values with one reference value: factors with 1, changes with 0.
namespace headroom {

/// One row: a point, its 95% interval as a whisker, and its text after both.
struct Dot {
  std::string name;
  double value = 0;
  std::optional<Interval> interval;  ///< a point without one is hollow
  std::string text;
  bool is_unsettled = false;  ///< drawn hollow: its value is not settled
  nlohmann::json tip;
};
/// finding_of() the interval; kInconclusive if the row is unsettled.
[[nodiscard]] Finding finding_of(const Dot& dot, double reference);

/// Draws the rows, top first, and a dashed line at `reference`. A point is green on the good side and purple on the
/// bad one. It is grey if its interval holds the reference, and hollow without an interval.
[[nodiscard]] nlohmann::json dot_plot(const std::vector<Dot>& dots, std::string_view axis_name,
                                      std::string_view axis_fn, double reference, Finding good);
/// The height that the rows need.
[[nodiscard]] int height_of_dots(const std::vector<Dot>& dots);
/// Explains colours and whiskers, for a chart's notes. `better` and `worse` are words such as "faster" and
/// "slower".
[[nodiscard]] std::vector<std::string> dot_plot_notes(const std::vector<Dot>& dots, double reference,
                                                      std::string_view better, std::string_view worse);

/// "+12% [+8.1, +16]" for 0.12, or "+12%" without an interval.
[[nodiscard]] std::string percent_with_interval(double share, const std::optional<Interval>& interval);

}  // namespace headroom
