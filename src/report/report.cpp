#include "report/report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string_view>

#include "base/error.hpp"
#include "base/files/file.hpp"
#include "base/files/file_lock.hpp"
#include "base/text/format.hpp"
#include "base/text/markdown.hpp"
#include "report/chart_names.hpp"
#include "report/charts/charts.hpp"
#include "report/dashboard.hpp"
#include "report/render/html.hpp"
#include "report/tables.hpp"

namespace headroom {
namespace {

namespace fs = std::filesystem;

constexpr const char* kDashboardFile = "performance_dashboard.html";
constexpr const char* kIndexFile = "index.md";
constexpr std::string_view kChartLine = "- ";  // begins the line of a chart in the index
constexpr std::string_view kLeftOutHeading = "## Left out";

std::string make_index(const ChartSet& set, const Dataset& dataset, const ReportOptions& options) {
  std::string text = "# Report\n\n[Dashboard](performance_dashboard.html)\n\n## Charts\n\n";
  for (const Chart& chart : set.charts) {
    text +=
        fmt::format("{}{}: {}; {}", kChartLine, chart.file, markdown_text(chart.title), markdown_text(chart.subtitle));
    for (const ChartFormat format : chart_formats())
      if (options.formats.contains(format)) text += fmt::format(" [{0}]({1}.{0})", name_of(format), chart.file);
    text += '\n';
  }
  const auto is_drawn = [&](ChartFormat format) { return options.formats.contains(format); };
  if (!set.charts.empty() && std::ranges::none_of(chart_formats(), is_drawn))
    text += "\nNo pictures were asked for (`--format`): these charts are in the dashboard alone.\n";
  if (set.charts.empty()) text += "None.\n";
  text += fmt::format("\n{}\n\n", kLeftOutHeading);
  for (const LeftOut& left_out : set.left_out)
    text += fmt::format("- {}: {}\n", left_out.file, markdown_text(left_out.reason));
  if (set.left_out.empty()) text += "Nothing.\n";
  if (!dataset.left_out().empty()) text += "\n## Files left out\n\n";
  for (const std::string& reason : dataset.left_out()) text += fmt::format("- {}\n", markdown_text(reason));
  text += "\n## Results\n\n";
  for (const auto& [path, file] : dataset.files())
    text += fmt::format("- {} ({}, {})\n", markdown_text(path), file.created.empty() ? "no date" : file.created,
                        format_count(std::ssize(file.results), "result"));
  return text;
}

/// The charts that the index of an earlier report in the folder lists.
std::set<std::string> charts_of_index(const fs::path& index) {
  std::set<std::string> names;
  std::error_code error;
  if (!fs::is_regular_file(index, error)) return names;
  const std::string text = read_file(index);
  std::string_view rest = text;
  while (!rest.empty()) {
    std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(line.size() + 1, rest.size()));
    if (line == kLeftOutHeading) break;  // untrusted text follows
    if (!line.starts_with(kChartLine)) continue;
    line.remove_prefix(kChartLine.size());
    const std::string_view name = line.substr(0, line.find(':'));
    if (may_be_chart_name(name) && name == fs::path(name).filename().string()) names.emplace(name);
  }
  return names;
}

/// Removes charts that an earlier run wrote here and this one did not, since they would be taken for these results.
/// `earlier` are the charts of that run; names of older reports are recognized by their form.
void remove_stale(const fs::path& folder, const std::set<std::string>& earlier, const std::set<fs::path>& written) {
  const auto is_chart = [&](const fs::path& name) {
    if (name == kScriptFile) return true;
    const std::string stem = name.stem().string(), extension = name.extension().string();
    const auto is_of = [&](ChartFormat format) { return extension == fmt::format(".{}", name_of(format)); };
    return std::ranges::any_of(chart_formats(), is_of) && (earlier.contains(stem) || is_numbered_chart_name(stem));
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
  const std::set<std::string> earlier = charts_of_index(folder / kIndexFile);
  if (options.progress) options.progress("choosing charts", 0, 1);
  const ChartSet set = draw_charts(dataset);
  ReportFiles written{.charts = {}, .left_out = set.left_out, .dashboard = folder / kDashboardFile};
  write_figures(set.charts, folder, options.formats, options.style, options.progress);
  std::set<fs::path> names;
  if (options.formats.contains(ChartFormat::kHtml)) {
    write_file_atomically(folder / kScriptFile, page_script());
    names.insert(kScriptFile);
  }
  for (const Chart& chart : set.charts) {
    written.charts.push_back(chart.file);
    for (const ChartFormat format : options.formats) names.insert(fmt::format("{}.{}", chart.file, name_of(format)));
  }
  remove_stale(folder, earlier, names);
  if (options.progress) options.progress("writing the dashboard", 0, 1);
  written.tables = write_report_tables(dataset, folder, options.tables);
  write_file_atomically(written.dashboard, make_dashboard(dataset, set, options));
  write_file_atomically(folder / kIndexFile, make_index(set, dataset, options));
  return written;
}

}  // namespace headroom
