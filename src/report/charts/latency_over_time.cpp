// Latencies of a stream's frames over their arrival time, drawn over those of the previous measurement.

#include <fmt/format.h>

#include <algorithm>

#include "base/text/format.hpp"
#include "measure/statistics/statistics.hpp"
#include "report/charts/charts.hpp"
#include "report/plots/option.hpp"
#include "report/plots/trial_plot.hpp"

namespace headroom::charts {
namespace {

using nlohmann::json;

constexpr std::size_t kMostSlices = 600;  // more would not be visible on a screen

/// [time, latency] of each slice of consecutive frames: their median, or their slowest.
json slices_of(const LatencyRecord& record, double quantile) {
  const std::size_t frames = record.latency_ms.size(), slices = std::min(frames, kMostSlices);
  json points = json::array();
  for (std::size_t i = 0; i < slices; ++i) {
    const std::size_t from = i * frames / slices, to = (i + 1) * frames / slices;
    std::vector<double> sorted(record.latency_ms.begin() + static_cast<std::ptrdiff_t>(from),
                               record.latency_ms.begin() + static_cast<std::ptrdiff_t>(to));
    std::ranges::sort(sorted);
    points.push_back(json::array({record.arrived_ms[from], quantile_of_sorted(sorted, quantile)}));
  }
  return points;
}

json line(std::string_view name, json points, std::string_view role, std::string_view type) {
  return {{"type", type},
          {"name", name},
          {"symbolSize", 4},
          {"showSymbol", false},
          {"data", std::move(points)},
          {"lineStyle", {{"width", 1.5}, {"color", color(role)}}},
          {"itemStyle", {{"color", color(role)}, {"opacity", 0.7}}}};
}

bool is_sliced(const LatencyRecord& record) { return record.latency_ms.size() > kMostSlices; }

json draw(const LatencyRecord& record, const LatencyRecord* before) {
  json option = base_option();
  option["grid"] = {{"left", 8}, {"right", 40}, {"bottom", 44}, {"containLabel", true}};
  const std::string of_each = is_sliced(record) ? "median" : "each frame";
  const std::string earlier = before != nullptr && is_sliced(*before) ? "previous run, median" : "previous run";
  std::vector<std::string> names = {of_each};
  if (is_sliced(record)) names.insert(names.begin(), "slowest");
  if (before != nullptr) names.insert(names.begin(), earlier);
  add_legend(option, names, 36);
  option["xAxis"] = value_axis("when the frame came", "axis_ms");
  option["xAxis"]["min"] = 0;
  option["yAxis"] = value_axis("latency", "axis_ms");
  option["yAxis"].update(
      {{"min", 0}, {"nameLocation", "end"}, {"nameGap", 10}, {"nameTextStyle", {{"align", "left"}}}});
  option["series"] = json::array();
  if (before != nullptr) option["series"].push_back(line(earlier, slices_of(*before, 0.5), "base", "line"));
  if (is_sliced(record)) option["series"].push_back(line("slowest", slices_of(record, 1), "orange", "scatter"));
  option["series"].push_back(line(of_each, slices_of(record, 0.5), "blue", "line"));
  return option;
}

}  // namespace

Drawn latency_over_time(const Dataset& dataset) {
  Drawn drawn{.charts = {}, .left_out = "no live stream was measured (headroom stream)"};
  for (const Scenario& scenario : dataset.scenarios())
    for (const Measurement* m : scenario.current) {
      if (!m->result->latency) continue;
      const LatencyRecord& record = *m->result->latency;
      const Measurement* const before = measured_before(scenario, *m);
      drawn.charts.push_back(
          {.file = numbered("latency_over_time", drawn.charts.size()),
           .title = fmt::format("Latency of frames over time: {}", m->shown_name()),
           .subtitle = subtitle_of(scenario),
           .of = {&scenario},
           .option = draw(record, before == nullptr ? nullptr : &*before->result->latency),
           .notes = {fmt::format(
               "{} came, {} {} dropped; p50 {}, p99 {}, p99.9 {}, most {}{}.", format_count(record.came, "frame"),
               record.dropped, record.dropped == 1 ? "was" : "were", label_ms(record.statistics.p50_ms),
               label_ms(record.statistics.p99_ms), label_ms(record.statistics.p99_9_ms),
               label_ms(record.statistics.max_ms),
               record.latency_ms.size() > 1 ? fmt::format("; it changes by {} from one frame to the next, on average",
                                                          label_ms(record.statistics.jitter_ms))
                                            : "")},
           .height = 420});
      if (m->unsettled)
        drawn.charts.back().notes.push_back(
            fmt::format("The times are unsettled, and nothing should be concluded from them: {}.", *m->unsettled));
      if (is_sliced(record))
        drawn.charts.back().notes.push_back(
            fmt::format("Drawn are {} slices of frames: the median and the slowest of each.", kMostSlices));
      if (before != nullptr)
        drawn.charts.back().notes.push_back(
            fmt::format("Before it: {} at {}.", before->file->created, before->revision()));
    }
  return drawn;
}

}  // namespace headroom::charts
