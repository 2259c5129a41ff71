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

/// Parts that ECharts options of several charts are made of.
namespace headroom {

/// A function or colour of assets/charts.js.
[[nodiscard]] nlohmann::json fn(std::string_view name);
[[nodiscard]] nlohmann::json color(std::string_view role);

/// Labels: three significant digits with a unit that fits; "2.8e+296 h" where a number is beyond all units.
[[nodiscard]] std::string label_ms(double ms);
[[nodiscard]] std::string label_bytes(double bytes);
[[nodiscard]] std::string label_factor(double factor);
/// "1.87x [1.80, 1.95]", with the 95% interval where there is one.
[[nodiscard]] std::string label_factor(const Estimate& factor);
[[nodiscard]] std::string label_plain(double value);                      ///< "0.0123", "5.9e-6"
[[nodiscard]] std::string label_si(double value, std::string_view unit);  ///< "1.78 TFLOP/s"
/// Seven significant digits, and every digit of a whole number: "105.7031 ms", "31092264 bytes".
[[nodiscard]] std::string exact(double value, std::string_view unit);
[[nodiscard]] std::string exact(const Interval& interval, std::string_view unit);  ///< "248 to 259 ms"

/// What a pointer shows of one item: exact values.
class Tip {
 public:
  explicit Tip(std::string_view title);
  Tip& row(std::string_view name, std::string_view value);
  /// Median, interval, trials and what was declined.
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
  std::string text;  ///< beside the bar
  std::string_view role = "blue";
  nlohmann::json tip;
  bool is_hollow = false;  ///< its value is no fact: drawn as an outline
};
/// A bar for each, top first, with its interval as a whisker and its text beyond both. `axis_fn` writes the axis.
[[nodiscard]] nlohmann::json horizontal_bars(const std::vector<Bar>& bars, std::string_view axis_name,
                                             std::string_view axis_fn);
/// The height that bars with these names need, wide and narrow.
[[nodiscard]] int height_of_bars(const std::vector<std::string>& names);
[[nodiscard]] std::vector<std::string> names_of(const std::vector<Bar>& bars);

/// What every option has: tooltips, no animation, description for readers of screens.
[[nodiscard]] nlohmann::json base_option();
/// An axis of categories that are names of any length, and one of values. No two names are equal on it.
[[nodiscard]] nlohmann::json name_axis(std::vector<std::string> names);
[[nodiscard]] nlohmann::json value_axis(std::string_view name, std::string_view axis_fn);

/// The style of an item in the colour of a role: filled, or hollow where its value is no fact.
[[nodiscard]] nlohmann::json item_style(std::string_view role, bool is_hollow);
/// The part of an option that changes on a narrow screen; made where it is not there yet.
[[nodiscard]] nlohmann::json& narrow_option(nlohmann::json& option);
/// Room right of horizontal bars or points for `texts`, which stand beside them. On a narrow screen names stand above
/// their bars and texts on two lines; where items have a shorter text for it, "narrow", `narrow_texts` are these.
void fit_bars(nlohmann::json& option, const std::vector<std::string>& texts,
              const std::vector<std::string>& narrow_texts = {});
/// A legend of all `names` above the plot, which begins `gap` below it, on a narrow screen too.
void add_legend(nlohmann::json& option, const std::vector<std::string>& names, int gap);
/// The height of a chart that has `plot` pixels left below the legend of add_legend() on a narrow screen.
[[nodiscard]] int height_below_legend(const nlohmann::json& option, int plot);

/// How a value stands beside what is drawn of it: the item's "text", to the right unless `changes` says otherwise.
[[nodiscard]] nlohmann::json value_label(const nlohmann::json& changes = nlohmann::json::object());
/// A series of intervals as whiskers: [place, low, high] each, along the axis of values.
[[nodiscard]] nlohmann::json horizontal_whiskers(nlohmann::json intervals);
[[nodiscard]] nlohmann::json vertical_whiskers(nlohmann::json intervals);

/// An axis of bytes up to `most`, divided into five at the most by a power of two.
[[nodiscard]] nlohmann::json byte_axis(std::string_view name, double most);

/// "of X on Y", under a chart's title.
[[nodiscard]] std::string subtitle_of(const Scenario& scenario);
/// Sentences about what a reader must know of these results: no interval, few trials, tags, repetitions left out.
[[nodiscard]] std::vector<std::string> notes_on(const Scenario& scenario, const std::vector<const Measurement*>& drawn);
/// Adds a sentence where what is drawn of one program was measured at more than one revision of it: which at which.
void note_revisions(std::vector<std::string>& notes, std::span<const Measurement* const> drawn);
/// A place of a chart, "2 at once", and what was measured there.
using Placed = std::pair<std::string, const Measurement*>;
/// Adds a sentence for each switch that declined in some of `placed`, which are of one configuration `name`: where, and
/// why; and one where times are not settled.
void note_declined(std::vector<std::string>& notes, const std::string& name, std::span<const Placed> placed);
/// "speedup_comparison" for the first of its kind, "speedup_comparison-2" for the next.
[[nodiscard]] std::string numbered(std::string_view file, std::size_t index);

}  // namespace headroom
