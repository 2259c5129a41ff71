// Violins of the raw trials of each configuration: images, passes or steps as they ran, none derived from others.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <utility>

#include "measure/results/timing.hpp"
#include "report/charts/charts.hpp"
#include "report/plots/option.hpp"

namespace headroom::charts {
namespace {

using nlohmann::json;

constexpr std::size_t kFewest = 5;  // fewer trials are drawn as points
constexpr int kPoints = 48;         // points of an outline

/// Rounds to five significant digits.
double rounded(double value) { return std::strtod(fmt::format("{:.5g}", value).c_str(), nullptr); }

/// Density at `kPoints` places from the smallest to the largest trial, with maximum 1: a Gaussian kernel of
/// Silverman's width (Density Estimation for Statistics and Data Analysis, 1986, equation 3.31). [place, density,
/// place, density, ...].
std::vector<double> outline_of(const std::vector<double>& sorted) {
  const Summary summary = [&] {
    Summary s;
    s.q1 = quantile_of_sorted(sorted, 0.25);
    s.q3 = quantile_of_sorted(sorted, 0.75);
    return s;
  }();
  double mean = 0, squares = 0;
  const auto n = static_cast<double>(sorted.size());
  for (const double x : sorted) mean += x / n;
  for (const double x : sorted) squares += (x - mean) * (x - mean);
  const double deviation = std::sqrt(squares / (n - 1)), range = (summary.q3 - summary.q1) / 1.34;
  double width = 0.9 * (range > 0 ? std::min(deviation, range) : deviation) * std::pow(n, -0.2);
  if (!(width > 0)) width = 1;
  std::vector<double> outline;
  double most = 0;
  for (int i = 0; i < kPoints; ++i) {
    const double at = sorted.front() + (sorted.back() - sorted.front()) * i / (kPoints - 1);
    double density = 0;
    for (const double x : sorted) density += std::exp(-0.5 * (at - x) * (at - x) / (width * width));
    outline.insert(outline.end(), {at, density});
    most = std::max(most, density);
  }
  for (std::size_t i = 0; i < outline.size(); i += 2) {  // drawing needs no more digits
    outline[i] = rounded(outline[i]);
    outline[i + 1] = rounded(outline[i + 1] / most);
  }
  return outline;
}

Tip tip_of(const Measurement& m, const std::vector<double>& sorted) {
  Tip tip(m.label);
  tip.row("trials", fmt::format("{}", sorted.size()))
      .row("median", exact(quantile_of_sorted(sorted, 0.5), "ms"))
      .row("least", exact(sorted.front(), "ms"))
      .row("quartiles", exact(Interval{quantile_of_sorted(sorted, 0.25), quantile_of_sorted(sorted, 0.75)}, "ms"))
      .row("most", exact(sorted.back(), "ms"));
  for (const auto& [name, share] :
       {std::pair("95th percentile", 0.95), {"99th percentile", 0.99}, {"99.9th percentile", 0.999}})
    if (static_cast<double>(sorted.size()) * (1 - share) > 0.999)  // fewer trials have none beyond it
      tip.row(name, exact(quantile_of_sorted(sorted, share), "ms"));
  return tip;
}

constexpr const char* kUnits[] = {"frame", "image", "forward", "step"};

/// The series that most of the measurements have enough trials of.
std::string series_for(const std::vector<const Measurement*>& measured) {
  std::map<std::string, std::size_t> enough;
  for (const Measurement* m : measured)
    for (const char* const what : kUnits)
      if (const std::vector<double>* times = find_times(*m->result, what); times != nullptr && times->size() >= kFewest)
        ++enough[what];
  std::string best = measured.front()->time().series;
  for (const char* const what : kUnits)
    if (enough[what] > enough[best]) best = what;
  return best;
}

json draw(const std::vector<const Measurement*>& measured, const std::string& what) {
  std::vector<std::string> names;
  json violins = json::array(), points = json::array();
  for (const Measurement* m : measured) {
    std::vector<double> sorted = *find_times(*m->result, what);
    std::ranges::sort(sorted);
    const json tip = tip_of(*m, sorted).json(), style = {{"color", color(m->is_peer ? "purple" : "blue")}};
    const auto row = static_cast<double>(names.size());
    names.push_back(m->shown_name() + (m->unsettled ? " (unsettled)" : ""));
    if (sorted.size() < kFewest || sorted.front() == sorted.back()) {
      for (const double trial : sorted)
        points.push_back({{"value", json::array({trial, row})}, {"tip", tip}, {"itemStyle", style}});
      continue;
    }
    std::vector<double> value = {row,
                                 sorted.front(),
                                 quantile_of_sorted(sorted, 0.25),
                                 quantile_of_sorted(sorted, 0.5),
                                 quantile_of_sorted(sorted, 0.75),
                                 sorted.back(),
                                 kPoints};
    const std::vector<double> outline = outline_of(sorted);
    value.insert(value.end(), outline.begin(), outline.end());
    violins.push_back({{"value", value}, {"tip", tip}, {"itemStyle", style}});
  }
  json option = base_option();
  option["grid"] = {{"left", 8}, {"right", 24}, {"top", 8}, {"bottom", 44}, {"containLabel", true}};
  option["yAxis"] = name_axis(std::move(names));
  option["xAxis"] = value_axis(fmt::format("time of one {}", unit_of_series(what)), "axis_ms");
  option["xAxis"]["scale"] = true;
  option["series"] = json::array({{{"type", "custom"},
                                   {"renderItem", fn("violin")},
                                   {"clip", true},
                                   {"data", violins},
                                   {"encode", {{"x", json::array({1, 5})}, {"y", 0}}}},
                                  {{"type", "scatter"}, {"symbolSize", 9}, {"data", points}}});
  fit_bars(option, {});
  option["grid"]["right"] = 24;
  return option;
}

}  // namespace

Drawn latency_distribution(const Dataset& dataset) {
  Drawn drawn;
  for (const Scenario& scenario : dataset.scenarios()) {
    if (scenario.subject.kind == SubjectKind::kKernel) continue;
    std::vector<const Measurement*> measured;
    for (const Measurement* m : scenario.current)
      if (m->timing) measured.push_back(m);
    if (measured.empty()) continue;
    const std::string what = series_for(measured);
    std::erase_if(measured, [&](const Measurement* m) { return find_times(*m->result, what) == nullptr; });
    if (measured.size() < (what == "frame" ? 1 : 2) || measured.front()->is_peer) continue;  // ours come first
    std::vector<std::string> names;
    for (const Measurement* m : measured) names.push_back(m->shown_name());
    drawn.charts.push_back(
        {.file = numbered("latency_distribution", drawn.charts.size()),
         .title = fmt::format("How times of {} {} are spread", what == "image" ? "an" : "a", unit_of_series(what)),
         .subtitle = subtitle_of(scenario),
         .of = {&scenario},
         .option = draw(measured, what),
         .notes = {fmt::format(
             "Density of the raw trials from the least to the most; thick: quartiles, ring: median. Fewer than {} "
             "trials, or equal ones, are points.{}",
             kFewest, std::ranges::any_of(measured, &Measurement::is_peer) ? " Purple: other programs." : "")},
         .height = height_of_bars(names)});
    note_revisions(drawn.charts.back().notes, measured);
  }
  drawn.left_out = "no two configurations of one work were timed";
  return drawn;
}

}  // namespace headroom::charts
