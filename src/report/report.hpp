#pragma once

#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "measure/tables/printout.hpp"
#include "report/chart.hpp"
#include "report/dataset.hpp"
#include "report/render/figures.hpp"

namespace headroom {

struct ReportOptions {
  std::set<ChartFormat> formats = {ChartFormat::kPng, ChartFormat::kHtml};
  FigureStyle style = {};
  std::set<TableFormat> tables = {};  ///< of report_tables()
  double max_quality_loss = 0.01;     ///< of a configuration that is recommended; see quality_loss()
  ReportProgress progress = {};
};

/// What was written.
struct ReportFiles {
  std::vector<std::string> charts;       ///< names without extension, in order
  std::vector<std::string> tables = {};  ///< files of tables, in order
  std::vector<LeftOut> left_out;
  std::filesystem::path dashboard;
};

/// Writes into `folder`, which must be there: every chart that the results allow in every format asked for,
/// `performance_dashboard.html`, and `index.md`, which lists both and says what was left out and why. Charts of an earlier
/// report that are not of this one are removed. Throws Error
/// where a file cannot be written, or a PNG, SVG or PDF is asked for on a machine without librsvg.
[[nodiscard]] ReportFiles write_report(const Dataset& dataset, const std::filesystem::path& folder,
                                       const ReportOptions& options);

}  // namespace headroom
