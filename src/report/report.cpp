#include "report/report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "base/error.hpp"
#include "base/file.hpp"
#include "base/file_lock.hpp"
#include "base/markdown.hpp"
#include "report/charts/charts.hpp"
#include "report/dashboard.hpp"
#include "report/html.hpp"
#include "report/renderer.hpp"
#include "report/tables.hpp"

namespace headroom {
namespace {

namespace fs = std::filesystem;

constexpr const char* kDashboardFile = "performance_dashboard.html";

std::string make_index(const ChartSet& set, const Dataset& dataset, const ReportOptions& options) {
  std::string text = "# Report\n\n[Dashboard](performance_dashboard.html)\n\n## Charts\n\n";
  for (const Chart& chart : set.charts) {
    text += fmt::format("- {}: {}", chart.file, markdown_text(chart.title));
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
  for (const LeftOut& left_out : set.left_out)
    text += fmt::format("- {}: {}\n", left_out.file, markdown_text(left_out.reason));
  if (set.left_out.empty()) text += "Nothing.\n";
  if (!dataset.left_out().empty()) text += "\n## Files left out\n\n";
  for (const std::string& reason : dataset.left_out()) text += fmt::format("- {}\n", markdown_text(reason));
  text += "\n## Results\n\n";
  for (const auto& [path, file] : dataset.files())
    text += fmt::format("- {} ({}, {} results)\n", markdown_text(path), file.created, file.results.size());
  return text;
}

/// Removes what an earlier run drew here and this one did not: it would be taken for these results.
void remove_stale(const fs::path& folder, const std::set<fs::path>& written) {
  static constexpr std::string_view kKinds[] = {
#define HR_CHART(name) #name,
#include "report/charts/charts.def"
#undef HR_CHART
  };
  const auto is_chart = [](const fs::path& name) {
    if (name == kScriptFile) return true;
    std::string stem = name.stem().string();
    if (const std::size_t dash = stem.rfind('-'); dash != std::string::npos)
      if (stem.find_first_not_of("0123456789", dash + 1) == std::string::npos && dash + 1 < stem.size())
        stem.resize(dash);
    const fs::path extension = name.extension();
    return (extension == ".png" || extension == ".html" || extension == ".svg") &&
           std::ranges::find(kKinds, stem) != std::end(kKinds);
  };
  std::vector<fs::path> stale;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder))
    if (is_chart(entry.path().filename()) && !written.contains(entry.path().filename())) stale.push_back(entry.path());
  for (const fs::path& path : stale) {
    std::error_code error;
    if (!fs::remove(path, error))
      fail("{}: a chart of earlier results cannot be removed: {}", path.string(), error.message());
  }
}

}  // namespace

ReportFiles write_report(const Dataset& dataset, const fs::path& folder, const ReportOptions& options) {
  const FileLock lock(folder / kDashboardFile);  // two reports in one folder would remove each other's charts
  const ChartSet set = draw_charts(dataset);
  ReportFiles written{.charts = {}, .left_out = set.left_out, .dashboard = folder / kDashboardFile};
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
  std::set<fs::path> names;
  if (options.formats.contains(ChartFormat::kHtml)) {
    write_file_atomically(folder / kScriptFile, page_script());
    names.insert(kScriptFile);
  }
  for (const Chart& chart : set.charts)
    for (const auto& [format, extension] :
         {std::pair(ChartFormat::kPng, ".png"), std::pair(ChartFormat::kHtml, ".html"),
          std::pair(ChartFormat::kSvg, ".svg")})
      if (options.formats.contains(format)) names.insert(chart.file + extension);
  remove_stale(folder, names);
  written.tables = write_report_tables(dataset, folder, options.tables);
  write_file_atomically(written.dashboard, make_dashboard(dataset, set, options));
  write_file_atomically(folder / "index.md", make_index(set, dataset, options));
  return written;
}

}  // namespace headroom
