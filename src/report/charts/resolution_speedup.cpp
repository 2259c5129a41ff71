// Speedup of each configuration over the baseline at each image size, and growth of time with pixels (fitted power
// laws).

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>

#include "base/text/format.hpp"
#include "report/charts/charts.hpp"
#include "report/image_size.hpp"
#include "report/plots/option.hpp"
#include "report/plots/power_law.hpp"
#include "report/render/html.hpp"
#include "report/sweep.hpp"

namespace headroom::charts {
namespace {

using nlohmann::json;

constexpr std::size_t kMostOfOurs = 6;
constexpr std::size_t kFewestToFit = 3;

/// The lines of a sweep, at most kMostOfOurs of ours.
std::vector<SweepLine> size_lines_of(const Sweep& sweep) {
  std::vector<SweepLine> lines = all_lines_of(sweep);
  keep_first_of_ours(lines, kMostOfOurs);
  tell_lines_apart(lines);
  return lines;
}

/// The baseline of a measurement's own run, since factors are formed within one run.
const Measurement* baseline_in_run(const Scenario& scenario, const Measurement& m) {
  const auto found = std::ranges::find_if(scenario.all, [&](const Measurement* other) {
    return other->file == m.file && other->is_baseline() &&
           other->result->configuration.baseline_dtype == m.result->configuration.baseline_dtype;
  });
  return found == scenario.all.end() ? nullptr : *found;
}

using Factors = std::map<const Measurement*, Estimate>;

/// The factor of each configuration on the baseline of its size and run.
Factors factors_over(const Dataset& dataset, const Sweep& sweep) {
  Factors factors;
  for (const SweepPoint& point : sweep.points)
    for (const Measurement* m : point.scenario->current) {
      if (m->is_peer || m->is_baseline() || !m->timing) continue;
      const Measurement* const base = baseline_in_run(*point.scenario, *m);
      if (base == nullptr) continue;
      if (const std::optional<Estimate> factor = dataset.factor(*base, *m)) factors.emplace(m, *factor);
    }
  return factors;
}

/// The lines of factors: those with two, over the sizes that any of them has, to which it reduces the sweep.
std::vector<SweepLine> factor_lines_of(Sweep& sweep, const Factors& factors) {
  std::vector<SweepLine> lines = all_lines_of(sweep);
  const auto has_factor = [&](const Measurement* m) { return m != nullptr && factors.contains(m); };
  for (SweepLine& line : lines)
    std::ranges::replace_if(line.at, std::not_fn(has_factor), static_cast<const Measurement*>(nullptr));
  std::erase_if(lines, [&](const SweepLine& line) { return std::ranges::count_if(line.at, has_factor) < 2; });
  keep_first_of_ours(lines, kMostOfOurs);
  for (std::size_t i = sweep.points.size(); i-- > 0;) {
    if (std::ranges::any_of(lines, [&](const SweepLine& line) { return line.at[i] != nullptr; })) continue;
    const auto place = static_cast<std::ptrdiff_t>(i);
    sweep.points.erase(sweep.points.begin() + place);
    for (SweepLine& line : lines) line.at.erase(line.at.begin() + place);
  }
  tell_lines_apart(lines);
  return lines;
}

json draw_factors(const Sweep& sweep, const std::vector<SweepLine>& lines, const Factors& factors) {
  json option = sweep_option(sweep, lines, size_axis_name(sweep),
                             {.name = "times as fast as the baseline",
                              .of = [&](const SweepPoint&, const Measurement& m) { return factors.at(&m); },
                              .axis_fn = "axis_factor",
                              .label = [](double factor) { return label_factor(factor); },
                              .unit = "times as fast",
                              .needs_interval = true});
  option["series"][0]["markLine"] = dashed_line("yAxis", 1);
  return option;
}

/// A line's times over pixels and the fit to them.
struct FittedLine {
  const SweepLine* line;
  PowerLaw law;
  double least_pixels, most_pixels;
};

/// Empty if fewer than three sizes have a settled time.
std::optional<FittedLine> fit_line(const Sweep& sweep, const SweepLine& line) {
  std::vector<double> pixels, times;
  for (std::size_t i = 0; i < line.at.size(); ++i) {
    if (line.at[i] == nullptr || line.at[i]->unsettled || !(line.at[i]->time().median_ms > 0)) continue;
    pixels.push_back(*pixels_of(sweep.points[i].scenario->subject));
    times.push_back(line.at[i]->time().median_ms);
  }
  const auto [least, most] = std::ranges::minmax(pixels.empty() ? std::vector<double>{1} : pixels);
  if (pixels.size() < kFewestToFit || least == most) return {};
  return FittedLine{.line = &line, .law = fit_power_law(pixels, times), .least_pixels = least, .most_pixels = most};
}

/// The lines' labels, cut so that no two are equal, with the exponents.
std::vector<std::string> fit_names(const std::vector<FittedLine>& fits) {
  std::vector<std::string> names;
  for (const FittedLine& fitted : fits) names.push_back(fitted.line->label);
  names = cut_names(names, 40);
  for (std::size_t i = 0; i < fits.size(); ++i) names[i] += ": pixels^" + fits[i].law.exponent_text();
  return names;
}

/// A logarithmic axis.
json log_axis(std::string_view name, std::string_view axis_fn) {
  json axis = value_axis(name, axis_fn);
  axis["type"] = "log";
  axis["minorSplitLine"] = {{"show", true}, {"lineStyle", {{"color", color("line")}, {"opacity", 0.6}}}};
  return axis;
}

/// A label above the line that comes from the left, or after its end.
json label_beside_line(bool is_end) {
  if (is_end) return {{"position", "right"}};
  return {{"position", "top"}, {"align", "right"}};
}

/// Points and lines of one role differ in their shapes, as the lines in their dashes.
std::string_view symbol_of(const SweepLine& line) {
  return line.dash == "solid" ? "circle" : line.dash == "dashed" ? "diamond" : "triangle";
}

json draw_fits(const Sweep& sweep, const std::vector<FittedLine>& fits, const std::string& y_name) {
  json option = base_option();
  option["grid"] = {{"left", 8}, {"right", 96}, {"bottom", 44}, {"containLabel", true}};
  option["xAxis"] = log_axis("pixels of an image", "axis_si");
  option["yAxis"] = log_axis(y_name, "axis_ms");
  option["yAxis"].update({{"nameLocation", "end"}, {"nameGap", 14}, {"nameTextStyle", {{"align", "left"}}}});
  option["series"] = json::array();
  const std::vector<std::string> names = fit_names(fits);
  for (std::size_t f = 0; f < fits.size(); ++f) {
    const FittedLine& fitted = fits[f];
    const SweepLine& line = *fitted.line;
    json items = json::array(), intervals = json::array();
    for (std::size_t i = 0; i < line.at.size(); ++i) {
      const Measurement* const m = line.at[i];
      if (m == nullptr) continue;
      const Subject& subject = sweep.points[i].scenario->subject;
      const double pixels = *pixels_of(subject);
      Tip tip(fmt::format("{}, {}", line.label, sweep.points[i].name));
      tip.timing(*m).row("fitted", exact(fitted.law.at(pixels), "ms"));
      items.push_back({{"value", json::array({pixels, m->time().median_ms})},
                       {"text", label_ms(m->time().median_ms)},
                       {"label", label_beside_line(pixels == fitted.most_pixels)},
                       {"tip", tip.json()}});
      if (m->unsettled) items.back()["itemStyle"] = item_style(line.role, true);
      if (m->time().interval_ms)
        intervals.push_back(json::array({pixels, m->time().interval_ms->low, m->time().interval_ms->high}));
    }
    json ends = json::array();
    for (const double pixels : {fitted.least_pixels, fitted.most_pixels})
      ends.push_back(json::array({pixels, fitted.law.at(pixels)}));
    const std::string& name = names[f];
    option["series"].push_back({{"type", "line"},
                                {"name", name},
                                {"silent", true},
                                {"symbol", "none"},
                                {"data", std::move(ends)},
                                {"lineStyle", {{"type", line.dash}, {"width", 2}, {"color", color(line.role)}}},
                                {"itemStyle", {{"color", color(line.role)}}}});
    option["series"].push_back(line_whiskers(std::move(intervals), name, line.role));
    option["series"].push_back({{"type", "scatter"},
                                {"name", name},
                                {"symbol", symbol_of(line)},
                                {"symbolSize", 10},
                                {"data", std::move(items)},
                                {"z", 6},
                                {"itemStyle", {{"color", color(line.role)}, {"opacity", 1}}},
                                {"labelLayout", {{"hideOverlap", true}}},
                                {"label", value_label({{"color", color(line.role)}})}});
  }
  add_legend(option, names, 36);
  narrow_option(option)["grid"]["right"] = 60;
  return option;
}

bool is_in_pixels(const Sweep& sweep) {
  return std::ranges::all_of(sweep.points,
                             [](const SweepPoint& point) { return pixels_of(point.scenario->subject).has_value(); });
}

/// "6 trials"
std::string fewest_trials(const std::vector<const Measurement*>& shown) {
  std::size_t least = shown.front()->time().trials_ms.size();
  for (const Measurement* m : shown) least = std::min(least, m->time().trials_ms.size());
  return format_count(static_cast<std::int64_t>(least), "trial");
}

}  // namespace

Drawn resolution_speedup(const Dataset& dataset) {
  Drawn drawn;
  for (Sweep& sweep : sweeps_over_sizes(dataset)) {
    if (!is_in_pixels(sweep)) continue;
    const Factors factors = factors_over(dataset, sweep);
    const std::vector<SweepLine> lines = factor_lines_of(sweep, factors);
    if (lines.empty()) continue;
    const std::vector<const Measurement*> shown = measurements_of(lines);
    drawn.charts.push_back(
        {.file = numbered("resolution_speedup", drawn.charts.size()),
         .title = "Speedup at each image size",
         .subtitle = fmt::format("{}; {}", sweep.work, sweep.hardware),
         .of = dataset.scenarios_of(shown),
         .option = draw_factors(sweep, lines, factors),
         .notes = {"Each factor is on the baseline of its own size and run. Whiskers are its 95% interval; a "
                   "hollow point has none.",
                   fmt::format("n = {} of each or more.", fewest_trials(shown))}});
    fit_sweep(drawn.charts.back());
    for (std::string& note : notes_on_places(sweep, lines, "{}")) drawn.charts.back().notes.push_back(std::move(note));
  }
  drawn.left_out =
      "no configuration was measured with its baseline at two image sizes (headroom sweep --resolution 512,1024 --opt "
      "baseline --opt fast)";
  return drawn;
}

Drawn resolution_fit(const Dataset& dataset) {
  Drawn drawn;
  for (const Sweep& sweep : sweeps_over_sizes(dataset)) {
    if (!is_in_pixels(sweep)) continue;
    const std::vector<SweepLine> lines = size_lines_of(sweep);
    std::vector<FittedLine> fits;
    std::vector<SweepLine> fitted_lines;
    for (const SweepLine& line : lines)
      if (std::optional<FittedLine> fitted = fit_line(sweep, line)) {
        fits.push_back(*fitted);
        fitted_lines.push_back(line);
      }
    if (fits.empty()) continue;
    const std::vector<const Measurement*> shown = measurements_of(fitted_lines);
    const std::string unit = shown.front()->time().unit;
    Chart chart{.file = numbered("resolution_fit", drawn.charts.size()),
                .title = fmt::format("Time per {} over pixels, with a fitted power law", unit),
                .subtitle = fmt::format("{}; {}", sweep.work, sweep.hardware),
                .of = dataset.scenarios_of(shown),
                .option = draw_fits(sweep, fits, fmt::format("time per {}", unit)),
                .notes = {}};
    for (const FittedLine& fitted : fits)
      chart.notes.push_back(
          fmt::format("{}: time scales with pixels^{}.", fitted.line->label, fitted.law.exponent_text()));
    chart.notes.push_back(
        fmt::format("Both axes are logarithmic. Exponents are of least squares with Student's 95% interval; 1 is "
                    "proportional. n = {} of each point or more.",
                    fewest_trials(shown)));
    if (std::ranges::any_of(shown, [](const Measurement* m) { return m->unsettled.has_value(); }))
      chart.notes.emplace_back("Hollow points are unsettled, and no line is fitted to them.");
    for (std::string& note : notes_on(sweep, fitted_lines, "{}")) chart.notes.push_back(std::move(note));
    fit_sweep(chart);
    drawn.charts.push_back(std::move(chart));
  }
  drawn.left_out = "no configuration was measured at three image sizes (headroom sweep --resolution 256,512,1024)";
  return drawn;
}

}  // namespace headroom::charts
