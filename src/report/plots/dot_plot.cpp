#include "report/plots/dot_plot.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "measure/tables/table.hpp"
#include "report/plots/option.hpp"

namespace headroom {

using nlohmann::json;

namespace {

std::string signed_percent(double share) { return format_signed(100 * share) + "%"; }

std::string_view role_of_finding(Finding finding, Finding good) {
  if (finding == Finding::kInconclusive) return "base";
  return finding == good ? "green" : "purple";
}

json point_of(const Dot& dot, std::size_t row, double reference, Finding good) {
  const std::string_view role = role_of_finding(finding_of(dot, reference), good);
  json item = {{"value", json::array({dot.value, row})},
               {"name", dot.name},
               {"tip", dot.tip},
               {"itemStyle", {{"color", color(role)}, {"opacity", 1}}}};
  if (dot.is_unsettled || !dot.interval)
    item["itemStyle"].update({{"color", color("panel")}, {"borderColor", color(role)}, {"borderWidth", 2}});
  return item;
}

/// The values that the axis spans.
double extent_of(const std::vector<Dot>& dots, double reference) {
  Interval span{reference, reference};
  for (const Dot& dot : dots) {
    const Interval ends = dot.interval.value_or(Interval{dot.value, dot.value});
    span = {std::min({span.low, dot.value, ends.low}), std::max({span.high, dot.value, ends.high})};
  }
  return span.high - span.low;
}

/// Where a text begins: after the whisker, or after the dashed line where it would cross a text before it. A line
/// through the sign of a number would turn minus into plus.
double end_of_text(const Dot& dot, double reference, double extent) {
  constexpr double kTextShare = 0.4;  // of the plot's width
  const double end = std::max(dot.value, dot.interval ? dot.interval->high : dot.value);
  return end < reference && reference - end < kTextShare * extent ? reference : end;
}

}  // namespace

Finding finding_of(const Dot& dot, double reference) {
  return dot.is_unsettled ? Finding::kInconclusive : finding_of(dot.interval, reference);
}

json dot_plot(const std::vector<Dot>& dots, std::string_view axis_name, std::string_view axis_fn, double reference,
              Finding good) {
  std::vector<std::string> names, texts;
  json points = json::array(), ends = json::array(), intervals = json::array();
  const double extent = extent_of(dots, reference);
  for (const Dot& dot : dots) {
    const std::size_t row = names.size();
    names.push_back(dot.name);
    texts.push_back(dot.text);
    points.push_back(point_of(dot, row, reference, good));
    ends.push_back({{"value", json::array({end_of_text(dot, reference, extent), row})}, {"text", dot.text}});
    if (dot.interval) intervals.push_back(json::array({row, dot.interval->low, dot.interval->high}));
  }
  points.push_back({{"value", json::array({reference, 0})}, {"symbolSize", 0}});  // the axis reaches the reference

  json option = base_option();
  option["grid"] = {{"left", 8}, {"top", 8}, {"bottom", 44}, {"containLabel", true}};
  option["yAxis"] = name_axis(std::move(names));
  option["xAxis"] = value_axis(axis_name, axis_fn);
  option["xAxis"]["scale"] = true;
  json line = dashed_line("xAxis", reference);
  line["lineStyle"]["width"] = 1.5;
  // Invisible points carry the texts, after the whiskers.
  option["series"] =
      json::array({{{"type", "scatter"}, {"symbolSize", 12}, {"data", points}, {"z", 6}, {"markLine", line}},
                   {{"type", "scatter"},
                    {"silent", true},
                    {"z", 7},  // above the dashed line
                    {"symbolSize", 1},
                    {"itemStyle", {{"color", "transparent"}, {"opacity", 1}}},
                    {"label", value_label({{"fontSize", 12}, {"distance", 10}})},
                    {"data", ends}}});
  if (!intervals.empty()) option["series"].push_back(horizontal_whiskers(std::move(intervals)));
  fit_bars(option, texts);
  return option;
}

int height_of_dots(const std::vector<Dot>& dots) {
  std::vector<std::string> names;
  for (const Dot& dot : dots) names.push_back(dot.name);
  return height_of_bars(names);
}

std::vector<std::string> dot_plot_notes(const std::vector<Dot>& dots, double reference, std::string_view better,
                                        std::string_view worse) {
  std::vector<std::string> notes;
  const auto has_interval = [](const Dot& dot) { return dot.interval.has_value(); };
  if (std::ranges::any_of(dots, has_interval))
    notes.push_back(fmt::format(
        "Whiskers are 95% intervals. Green is {}, purple {}, grey does not differ significantly from the dashed line.",
        better, worse));
  const auto is_hollow = [](const Dot& dot) { return dot.is_unsettled || !dot.interval; };
  if (const auto hollow = std::ranges::count_if(dots, is_hollow); hollow > 0)
    notes.push_back(fmt::format("{} hollow: unsettled, or measured without an interval.",
                                hollow == 1 ? "1 point is" : fmt::format("{} points are", hollow)));
  const auto is_certain = [&](const Dot& dot) { return finding_of(dot, reference) != Finding::kInconclusive; };
  if (std::ranges::none_of(dots, is_certain)) notes.emplace_back("No row differs from the dashed line for certain.");
  return notes;
}

std::string percent_with_interval(double share, const std::optional<Interval>& interval) {
  if (!interval) return signed_percent(share);
  return fmt::format("{} [{}, {}]", signed_percent(share), format_signed(100 * interval->low),
                     format_signed(100 * interval->high));
}

}  // namespace headroom
