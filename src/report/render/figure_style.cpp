#include "report/render/figure_style.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <utility>

#include "base/error.hpp"

namespace headroom {
namespace {

constexpr double kPixelsPerInch = 96, kCentimetersPerInch = 2.54;
constexpr double kPrintedPerInch = 300;  // pixels of a PNG, as journals require

constexpr std::array<std::pair<std::string_view, double>, 4> kPixelsPer = {
    {{"cm", kPixelsPerInch / kCentimetersPerInch},
     {"mm", kPixelsPerInch / kCentimetersPerInch / 10},
     {"in", kPixelsPerInch},
     {"px", 1}}};

/// Whether the height of the chart depends on its number of rows.
bool has_rows(const Chart& chart) {
  const auto axis = chart.option.find("yAxis");
  return axis != chart.option.end() && axis->is_object() && axis->value("type", "") == "category";
}

/// The minimum height of a narrow figure: that of its plot, or of two plots above each other, below its legend.
int least_height(const Chart& chart) {
  constexpr int kPlot = 210, kTwoPlots = 440;
  const auto series = chart.option.find("series");
  if (series != chart.option.end() && series->is_array() && !series->empty() &&
      (*series)[0].value("type", "") == "sankey")
    return chart.height;  // it runs down, with names between its bars
  if (chart.option.contains("grid") && chart.option["grid"].is_array()) return kTwoPlots;
  const nlohmann::json::json_pointer top("/media/0/option/grid/top");
  return chart.option.contains(top) ? chart.option[top].get<int>() + kPlot : 0;
}

}  // namespace

FigureWidth FigureWidth::parse(std::string_view text) {
  FigureWidth width;
  const char* const end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, width.value);
  width.unit = std::string(stopped, end);
  const bool is_known = std::ranges::find(kPixelsPer, std::string_view(width.unit),
                                          &std::pair<std::string_view, double>::first) != kPixelsPer.end();
  const double least = 2 * kPixelsPer[0].second, most = 100 * kPixelsPer[0].second;
  if (error != std::errc() || !is_known || !(width.pixels() >= least && width.pixels() <= most))
    fail_usage("--width '{}': expected a width of 2cm to 100cm in cm, mm, in or px, such as 8.5cm", text);
  return width;
}

double FigureWidth::pixels() const {
  const auto* const found =
      std::ranges::find(kPixelsPer, std::string_view(unit), &std::pair<std::string_view, double>::first);
  return found == kPixelsPer.end() ? 0 : value * found->second;
}

FigureLayout layout_of(const Chart& chart, const FigureStyle& style) {
  FigureLayout layout{.width = chart.width, .plot_height = chart.height, .scale = 1};
  if (!style.width) return layout;
  constexpr double kSmallText = 0.75, kNarrowest = 360, kPlotShape = 0.75;
  const double pixels = style.width->pixels();
  const double units = std::clamp(pixels / kSmallText, kNarrowest, static_cast<double>(chart.width));
  layout.width = static_cast<int>(std::lround(units));
  layout.scale = pixels / layout.width;
  if (!has_rows(chart))
    layout.plot_height =
        std::min(chart.height, std::max(static_cast<int>(std::lround(kPlotShape * layout.width)), least_height(chart)));
  return layout;
}

double png_scale(const FigureStyle& style) {
  if (!style.width) return 2;
  return style.width->unit == "px" ? 1 : kPrintedPerInch / kPixelsPerInch;
}

}  // namespace headroom
