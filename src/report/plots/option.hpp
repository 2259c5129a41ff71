#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "report/dataset.hpp"
#include "report/ladder_view.hpp"

/// Building blocks of ECharts options, shared by several charts.
namespace headroom {

/// A reference to a function or colour of assets/charts.js.
[[nodiscard]] nlohmann::json fn(std::string_view name);
[[nodiscard]] nlohmann::json color(std::string_view role);

/// Labels: three significant digits with a fitting unit; "2.80e296 h" if a number is beyond all units.
[[nodiscard]] std::string label_ms(double ms);
[[nodiscard]] std::string label_bytes(double bytes);
[[nodiscard]] std::string label_factor(double factor);
/// "1.87x [1.80, 1.95]", with the 95% interval if there is one.
[[nodiscard]] std::string label_factor(const Estimate& factor);
[[nodiscard]] std::string label_si(double value, std::string_view unit);  ///< "1.78 TFLOP/s"
/// Seven significant digits, and every digit of a whole number: "105.7031 ms", "31092264 bytes".
[[nodiscard]] std::string exact(double value, std::string_view unit);
[[nodiscard]] std::string exact(const Interval& interval, std::string_view unit);  ///< "248 to 259 ms"

/// The tooltip of one item: exact values.
class Tip {
 public:
  explicit Tip(std::string_view title);
  Tip& row(std::string_view name, std::string_view value);
  /// Adds median, interval, trials and declined switches.
  Tip& timing(const Measurement& measurement);
  Tip& factor(std::string_view name, const std::optional<Estimate>& factor);
  [[nodiscard]] const nlohmann::json& json() const { return json_; }

 private:
  nlohmann::json json_;
};

/// One horizontal bar.
struct Bar {
  std::string name;
  double value = 0;
  std::optional<Interval> interval;
  std::string text;  ///< printed after the bar
  std::string_view role = "blue";
  nlohmann::json tip;
  bool is_hollow = false;  ///< its value is not settled: drawn as an outline
};
/// Draws a bar for each, top first, with its interval as a whisker and its text after both. `axis_fn` formats the
/// axis.
[[nodiscard]] nlohmann::json horizontal_bars(const std::vector<Bar>& bars, std::string_view axis_name,
                                             std::string_view axis_fn);
/// The height that bars with these names need, on wide and narrow screens.
[[nodiscard]] int height_of_bars(const std::vector<std::string>& names);
[[nodiscard]] std::vector<std::string> names_of(const std::vector<Bar>& bars);

/// The common part of every option: tooltips, no animation, description for screen readers.
[[nodiscard]] nlohmann::json base_option();
/// An axis of categories with names of any length, and an axis of values. All names on the axis differ.
[[nodiscard]] nlohmann::json name_axis(std::vector<std::string> names);
[[nodiscard]] nlohmann::json value_axis(std::string_view name, std::string_view axis_fn);

/// The style of an item in the colour of a role: filled, or hollow if its value is not settled.
[[nodiscard]] nlohmann::json item_style(std::string_view role, bool is_hollow);
/// The part of an option that changes on a narrow screen; created on first use.
[[nodiscard]] nlohmann::json& narrow_option(nlohmann::json& option);
/// Reserves room for `texts` to the right of horizontal bars or points. On a narrow screen, names are placed above
/// their bars, and texts take two lines. Items with a shorter "narrow" text have it in `narrow_texts`.
void fit_bars(nlohmann::json& option, const std::vector<std::string>& texts,
              const std::vector<std::string>& narrow_texts = {});
/// Adds a legend of all `names` above the plot, which begins `gap` below it, also on a narrow screen.
void add_legend(nlohmann::json& option, const std::vector<std::string>& names, int gap);
/// The height of a chart that leaves `plot` pixels below the legend of add_legend() on a narrow screen.
[[nodiscard]] int height_below_legend(const nlohmann::json& option, int plot);

/// The label of a drawn value: the item's "text", to the right unless `changes` says otherwise.
[[nodiscard]] nlohmann::json value_label(const nlohmann::json& changes = nlohmann::json::object());
/// The markLine of a series: a dashed line without label across the plot, at `value` of "xAxis" or "yAxis".
[[nodiscard]] nlohmann::json dashed_line(std::string_view axis, double value);
/// A series of intervals as whiskers: [category, low, high] each, along the axis of values.
[[nodiscard]] nlohmann::json horizontal_whiskers(nlohmann::json intervals);
[[nodiscard]] nlohmann::json vertical_whiskers(nlohmann::json intervals);
/// Vertical whiskers of a line in a chart of several: in the line's colour, and hidden with it by the legend.
[[nodiscard]] nlohmann::json line_whiskers(nlohmann::json intervals, const std::string& line, std::string_view role);

/// Makes the horizontal axis one of bytes from 0 up to `most`, in at most five divisions that are powers of two, each
/// wide enough for its label. To be called after what sets the margins, such as fit_bars().
void set_byte_axis(nlohmann::json& option, std::string_view name, double most);

/// "of X on Y", under a chart's title.
[[nodiscard]] std::string subtitle_of(const Scenario& scenario);
/// Facts that the reader of a chart of times and factors needs: missing intervals, tags, repetitions left out.
[[nodiscard]] std::vector<std::string> notes_on(const Scenario& scenario, const std::vector<const Measurement*>& drawn);
/// Adds what whiskers are if any of `drawn` has an interval, and how many have none and why.
void note_whiskers(std::vector<std::string>& notes, std::span<const Measurement* const> drawn);
/// Adds a sentence if results of one program were measured at several revisions: which result at which revision.
void note_revisions(std::vector<std::string>& notes, std::span<const Measurement* const> drawn);
/// Adds a sentence that names the drawn results that are unsettled, with the reason of the first.
void note_unsettled(std::vector<std::string>& notes, std::span<const Measurement* const> drawn);
/// A place in a chart, such as "2 at once", and the measurement at that place.
using Placed = std::pair<std::string, const Measurement*>;
/// Adds a sentence for each switch that declined in some of `placed`, with the places and the reason. All of
/// `placed` are of one configuration `name`. Adds another sentence if times are not settled.
void note_declined(std::vector<std::string>& notes, const std::string& name, std::span<const Placed> placed);
/// "speedup_comparison" for the first of its kind, "speedup_comparison-2" for the next.
[[nodiscard]] std::string numbered(std::string_view file, std::size_t index);

}  // namespace headroom
