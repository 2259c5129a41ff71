// Speedup of each configuration over the baseline at each image size, and growth of time with pixels (fitted power
// laws).

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "measure/tables/table.hpp"
#include "report/charts/charts.hpp"
#include "report/image_size.hpp"
#include "report/plots/option.hpp"
#include "report/plots/power_law.hpp"
#include "report/render/html.hpp"
#include "report/sweep.hpp"

namespace headroom::charts {
namespace {

using nlohmann::json;

constexpr std::array<std::string_view, 6> kLineRoles = {"orange", "blue", "green", "gold", "sky", "orange_soft"};
constexpr std::array<std::string_view, 3> kPeerLineRoles = {"purple", "faint", "axis"};
constexpr std::size_t kFewestToFit = 3;

/// One configuration, by its requested switches, over the sizes of a sweep.
struct SizeLine {
  std::string key;
  std::string name;
  std::string_view role;
  std::vector<const Measurement*> at;  ///< one for each size; null if not measured
};

std::string asked_key(const Measurement& m) {
  return fmt::format("{}|{}|{}|{}", m.result->source.name, m.is_peer ? m.label : "",
                     m.result->configuration.baseline_dtype.value_or(""), fmt::join(m.switches(), "+"));
}

/// All configurations measured at two sizes or more, the baseline first. At most six of ours: the fastest at the
/// largest size.
std::vector<SizeLine> size_lines_of(const Sweep& sweep) {
  std::vector<SizeLine> lines;
  for (std::size_t i = 0; i < sweep.points.size(); ++i)
    for (const Measurement* m : sweep.points[i].scenario->current) {
      if (!m->timing || !(m->time().median_ms > 0)) continue;
      const std::string key = asked_key(*m);
      auto line = std::ranges::find(lines, key, &SizeLine::key);
      if (line == lines.end()) {
        lines.push_back({.key = key, .name = {}, .role = {}, .at = {}});
        lines.back().at.resize(sweep.points.size(), nullptr);
        line = std::prev(lines.end());
      }
      line->at[i] = m;
      // Named after the largest size, since a switch may decline at a small one.
      line->name = m->label + (m->precision ? fmt::format(" ({})", *m->precision) : "");
    }
  std::erase_if(lines, [](const SizeLine& line) {
    return std::ranges::count_if(line.at, [](const Measurement* m) { return m != nullptr; }) < 2;
  });
  const auto rank = [](const SizeLine& line) {
    const Measurement& m =
        **std::ranges::find_if(line.at.rbegin(), line.at.rend(), [](auto* at) { return at != nullptr; });
    return std::pair(m.is_peer ? 2 : m.switches().empty() ? 0 : 1, m.time().median_ms);
  };
  std::ranges::stable_sort(lines, {}, rank);
  std::vector<SizeLine> kept;
  std::size_t ours = 0, peers = 0;
  for (SizeLine& line : lines) {
    const int kind = rank(line).first;
    if (kind == 0) line.role = "base";
    if (kind == 1 && ours < kLineRoles.size()) line.role = kLineRoles[ours++];
    if (kind == 2 && peers < kPeerLineRoles.size()) line.role = kPeerLineRoles[peers++];
    if (!line.role.empty()) kept.push_back(std::move(line));
  }
  return kept;
}

/// The baseline of a measurement's own run, since factors are formed within one run.
const Measurement* baseline_in_run(const Scenario& scenario, const Measurement& m) {
  const auto found = std::ranges::find_if(scenario.all, [&](const Measurement* other) {
    return other->file == m.file && other->switches().empty() && !other->is_peer &&
           other->result->configuration.baseline_dtype == m.result->configuration.baseline_dtype;
  });
  return found == scenario.all.end() ? nullptr : *found;
}

/// An axis with a name for each size, and an axis of values.
json pixel_axes(const Sweep& sweep, std::string_view y_name, std::string_view y_fn) {
  json option = base_option();
  option["grid"] = {{"left", 8}, {"right", 96}, {"top", 64}, {"bottom", 56}, {"containLabel", true}};
  std::vector<std::string> names;
  for (const SweepPoint& point : sweep.points) names.push_back(size_name(point.scenario->subject));
  option["xAxis"] = {{"type", "category"},
                     {"name", "image size, by pixels"},
                     {"nameLocation", "middle"},
                     {"nameGap", 34},
                     {"data", names},
                     {"axisLabel", {{"interval", 0}, {"hideOverlap", true}}}};
  option["yAxis"] = value_axis(y_name, y_fn);
  option["yAxis"].update(
      {{"nameLocation", "end"}, {"nameGap", 12}, {"nameTextStyle", {{"align", "left"}}}, {"scale", true}});
  option["series"] = json::array();
  return option;
}

json line_series(const SizeLine& line, const std::string& name, json items) {
  return {{"type", "line"},
          {"name", name},
          {"data", std::move(items)},
          {"symbol", "circle"},
          {"symbolSize", 9},
          {"lineStyle", {{"width", 2}, {"color", color(line.role)}}},
          {"itemStyle", {{"color", color(line.role)}}},
          {"labelLayout", {{"hideOverlap", true}, {"moveOverlap", "shiftY"}}},
          {"label", value_label()}};
}

json hollow_style(std::string_view role) {
  return {{"color", color("panel")}, {"borderColor", color(role)}, {"borderWidth", 2}};
}

/// A legend of all lines above the plot and above the name of its vertical axis.
void add_line_legend(json& option, const std::vector<std::string>& names) {
  add_legend(option, names, 36);
  narrow_option(option)["grid"]["right"] = 60;
}

/// Speedup over the baseline by size; null if no configuration has one at two sizes.
json draw_factors(const Dataset& dataset, const Sweep& sweep, const std::vector<SizeLine>& lines,
                  std::vector<const Measurement*>& shown) {
  json option = pixel_axes(sweep, "times as fast as the baseline", "axis_factor");
  std::vector<std::string> names;
  for (const SizeLine& line : lines) {
    json items = json::array(), intervals = json::array();
    for (std::size_t i = 0; i < line.at.size(); ++i) {
      const Measurement* const m = line.at[i];
      if (m == nullptr || m->is_peer || m->switches().empty()) continue;
      const Scenario& scenario = *sweep.points[i].scenario;
      const Measurement* const base = baseline_in_run(scenario, *m);
      const std::optional<Estimate> factor = base == nullptr ? std::nullopt : dataset.factor(*base, *m);
      if (!factor) continue;
      Tip tip(fmt::format("{}, {}", line.name, size_name(scenario.subject)));
      tip.factor("against the baseline", factor).timing(*m).row("baseline", exact(base->time().median_ms, "ms"));
      items.push_back(
          {{"value", json::array({i, factor->value})}, {"text", label_factor(factor->value)}, {"tip", tip.json()}});
      if (!factor->interval) items.back()["itemStyle"] = hollow_style(line.role);
      if (factor->interval) intervals.push_back(json::array({i, factor->interval->low, factor->interval->high}));
      shown.push_back(m);
    }
    if (items.size() < 2) continue;
    names.push_back(line.name);
    option["series"].push_back(line_series(line, line.name, std::move(items)));
    option["series"].push_back(line_whiskers(std::move(intervals), line.name, line.role));
  }
  if (option["series"].empty()) return {};
  add_line_legend(option, names);
  option["series"][0]["markLine"] = dashed_line("yAxis", 1);
  return option;
}

/// A line's times over pixels and the fit to them.
struct FittedLine {
  const SizeLine* line;
  PowerLaw law;
  double least_pixels, most_pixels;
};

/// Empty if fewer than three sizes have a settled time.
std::optional<FittedLine> fit_line(const Sweep& sweep, const SizeLine& line) {
  std::vector<double> pixels, times;
  for (std::size_t i = 0; i < line.at.size(); ++i) {
    if (line.at[i] == nullptr || line.at[i]->unsettled.has_value()) continue;
    pixels.push_back(*pixels_of(sweep.points[i].scenario->subject));
    times.push_back(line.at[i]->time().median_ms);
  }
  const auto [least, most] = std::ranges::minmax(pixels.empty() ? std::vector<double>{1} : pixels);
  if (pixels.size() < kFewestToFit || least == most) return {};
  return FittedLine{.line = &line, .law = fit_power_law(pixels, times), .least_pixels = least, .most_pixels = most};
}

std::string fit_name(const FittedLine& fitted) {
  return fmt::format("{}: pixels^{}", cut_names({fitted.line->name}, 40).front(), fitted.law.exponent_text());
}

json draw_fits(const Sweep& sweep, const std::vector<FittedLine>& fits, const std::string& y_name) {
  json option = pixel_axes(sweep, y_name, "axis_ms");
  for (const char* axis : {"xAxis", "yAxis"}) {
    json& changed = option[axis];
    changed["type"] = "log";
    changed.erase("scale");
    changed["minorSplitLine"] = {{"show", true}, {"lineStyle", {{"color", color("line")}, {"opacity", 0.6}}}};
  }
  option["xAxis"].erase("data");
  option["xAxis"]["name"] = "pixels of an image";
  option["xAxis"]["axisLabel"] = {{"formatter", fn("axis_si")}};
  std::vector<std::string> names;
  for (const FittedLine& fitted : fits) {
    names.push_back(fit_name(fitted));
    json items = json::array(), intervals = json::array();
    for (std::size_t i = 0; i < fitted.line->at.size(); ++i) {
      const Measurement* const m = fitted.line->at[i];
      if (m == nullptr) continue;
      const Subject& subject = sweep.points[i].scenario->subject;
      const double pixels = *pixels_of(subject);
      Tip tip(fmt::format("{}, {}", fitted.line->name, size_name(subject)));
      tip.timing(*m).row("fitted", exact(fitted.law.at(pixels), "ms"));
      items.push_back({{"value", json::array({pixels, m->time().median_ms})},
                       {"text", label_ms(m->time().median_ms)},
                       {"tip", tip.json()}});
      if (m->unsettled) items.back()["itemStyle"] = hollow_style(fitted.line->role);
      if (m->time().interval_ms)
        intervals.push_back(json::array({pixels, m->time().interval_ms->low, m->time().interval_ms->high}));
    }
    json ends = json::array();
    for (const double pixels : {fitted.least_pixels, fitted.most_pixels})
      ends.push_back(json::array({pixels, fitted.law.at(pixels)}));
    const std::string& name = names.back();
    option["series"].push_back({{"type", "line"},
                                {"name", name},
                                {"silent", true},
                                {"symbol", "none"},
                                {"data", std::move(ends)},
                                {"lineStyle", {{"type", "dashed"}, {"width", 2}, {"color", color(fitted.line->role)}}},
                                {"itemStyle", {{"color", color(fitted.line->role)}}}});
    option["series"].push_back(line_whiskers(std::move(intervals), name, fitted.line->role));
    option["series"].push_back({{"type", "scatter"},
                                {"name", name},
                                {"symbolSize", 10},
                                {"data", std::move(items)},
                                {"z", 6},
                                {"itemStyle", {{"color", color(fitted.line->role)}, {"opacity", 1}}},
                                {"labelLayout", {{"hideOverlap", true}, {"moveOverlap", "shiftY"}}},
                                {"label", value_label()}});
  }
  add_line_legend(option, names);
  return option;
}

/// Works that differ only in image size, by pixels; for equal areas the narrower image comes first.
std::vector<Sweep> size_sweeps(const Dataset& dataset) {
  return sweeps_over(dataset, resolution_keys(), [](const Subject& subject) -> std::optional<double> {
    const std::optional<double> pixels = pixels_of(subject);
    const std::optional<ImageSize> size = image_size_of(subject);
    return pixels && size ? *pixels + 1e-6 * static_cast<double>(size->width) : pixels;
  });
}

std::size_t fewest_trials(const std::vector<const Measurement*>& shown) {
  std::size_t least = shown.front()->time().trials_ms.size();
  for (const Measurement* m : shown) least = std::min(least, m->time().trials_ms.size());
  return least;
}

std::vector<const Measurement*> measurements_in(const std::vector<FittedLine>& fits) {
  std::vector<const Measurement*> shown;
  for (const FittedLine& fitted : fits)
    for (const Measurement* m : fitted.line->at)
      if (m != nullptr) shown.push_back(m);
  return shown;
}

}  // namespace

Drawn resolution_speedup(const Dataset& dataset) {
  Drawn drawn;
  for (const Sweep& sweep : size_sweeps(dataset)) {
    std::vector<const Measurement*> shown;
    json option = draw_factors(dataset, sweep, size_lines_of(sweep), shown);
    if (option.is_null()) continue;
    drawn.charts.push_back(
        {.file = numbered("resolution_speedup", drawn.charts.size()),
         .title = "Speedup at each image size",
         .subtitle = fmt::format("{}; {}", sweep.work, sweep.hardware),
         .of = dataset.scenarios_of(shown),
         .option = std::move(option),
         .notes = {"Each factor is on the baseline of its own size and run. Whiskers are its 95% interval; a "
                   "hollow point has none.",
                   fmt::format("n = {} trials of each or more.", fewest_trials(shown))}});
    fit_sweep(drawn.charts.back());
    note_revisions(drawn.charts.back().notes, shown);
  }
  drawn.left_out =
      "no configuration was measured with its baseline at two image sizes (headroom sweep --resolution 512,1024 --opt "
      "baseline --opt fast)";
  return drawn;
}

Drawn resolution_fit(const Dataset& dataset) {
  Drawn drawn;
  for (const Sweep& sweep : size_sweeps(dataset)) {
    const std::vector<SizeLine> lines = size_lines_of(sweep);
    std::vector<FittedLine> fits;
    for (const SizeLine& line : lines)
      if (std::optional<FittedLine> fitted = fit_line(sweep, line)) fits.push_back(*fitted);
    if (fits.empty()) continue;
    const std::vector<const Measurement*> shown = measurements_in(fits);
    const std::string unit = shown.front()->time().unit;
    Chart chart{.file = numbered("resolution_fit", drawn.charts.size()),
                .title = fmt::format("Time per {} over pixels, with a fitted power law", unit),
                .subtitle = fmt::format("{}; {}", sweep.work, sweep.hardware),
                .of = dataset.scenarios_of(shown),
                .option = draw_fits(sweep, fits, fmt::format("time per {}", unit)),
                .notes = {}};
    for (const FittedLine& fitted : fits)
      chart.notes.push_back(
          fmt::format("{}: time scales with pixels^{}.", fitted.line->name, fitted.law.exponent_text()));
    chart.notes.push_back(
        fmt::format("Both axes are logarithmic. Exponents are of least squares with Student's 95% interval; 1 is "
                    "proportional. n = {} trials of each point or more.",
                    fewest_trials(shown)));
    note_revisions(chart.notes, shown);
    fit_sweep(chart);
    drawn.charts.push_back(std::move(chart));
  }
  drawn.left_out = "no configuration was measured at three image sizes (headroom sweep --resolution 256,512,1024)";
  return drawn;
}

}  // namespace headroom::charts
