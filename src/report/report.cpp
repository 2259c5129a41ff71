#include "report/report.hpp"

#include <fmt/format.h>

#include <optional>
#include <utility>

#include "base/file.hpp"
#include "report/charts/charts.hpp"
#include "report/dashboard.hpp"
#include "report/html.hpp"
#include "report/renderer.hpp"

namespace headroom {
namespace {

namespace fs = std::filesystem;

std::string make_index(const ChartSet& set, const Dataset& dataset, const ReportOptions& options) {
  std::string text = "# Report\n\n[Dashboard](performance_dashboard.html)\n\n## Charts\n\n";
  for (const Chart& chart : set.charts) {
    text += fmt::format("- {}: {}", chart.file, chart.title);
    const auto link = [&](ChartFormat format, std::string_view extension) {
      if (options.formats.contains(format)) text += fmt::format(" [{0}]({1}.{0})", extension, chart.file);
    };
    link(ChartFormat::kPng, "png");
    link(ChartFormat::kSvg, "svg");
    link(ChartFormat::kHtml, "html");
    text += '\n';
  }
  if (set.charts.empty()) text += "None.\n";
  text += "\n## Left out\n\n";
  for (const LeftOut& left_out : set.left_out) text += fmt::format("- {}: {}\n", left_out.file, left_out.reason);
  if (set.left_out.empty()) text += "Nothing.\n";
  if (!dataset.left_out().empty()) text += "\n## Files left out\n\n";
  for (const std::string& reason : dataset.left_out()) text += fmt::format("- {}\n", reason);
  text += "\n## Results\n\n";
  for (const auto& [path, file] : dataset.files())
    text += fmt::format("- {} ({}, {} results)\n", path, file.created, file.results.size());
  return text;
}

}  // namespace

ReportFiles write_report(const Dataset& dataset, const fs::path& folder, const ReportOptions& options) {
  const ChartSet set = draw_charts(dataset);
  ReportFiles written{.charts = {}, .left_out = set.left_out, .dashboard = folder / "performance_dashboard.html"};
  const bool draws = options.formats.contains(ChartFormat::kPng) || options.formats.contains(ChartFormat::kSvg);
  std::optional<ChartRenderer> renderer;
  if (draws) renderer.emplace();
  std::vector<std::pair<fs::path, std::string>> pngs;
  for (const Chart& chart : set.charts) {
    written.charts.push_back(chart.file);
    if (options.formats.contains(ChartFormat::kHtml))
      write_file_atomically(folder / (chart.file + ".html"), chart_page(chart));
    if (!renderer) continue;
    std::string svg = renderer->to_svg(chart);
    if (options.formats.contains(ChartFormat::kSvg)) write_file_atomically(folder / (chart.file + ".svg"), svg);
    if (options.formats.contains(ChartFormat::kPng)) pngs.emplace_back(folder / (chart.file + ".png"), std::move(svg));
  }
  write_pngs(pngs);
  write_file_atomically(written.dashboard, make_dashboard(dataset, set, options));
  write_file_atomically(folder / "index.md", make_index(set, dataset, options));
  return written;
}

}  // namespace headroom
