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
  std::set<TableFormat> tables = {};  ///< formats of report_tables()
  double max_quality_loss = 0.01;     ///< of a recommended configuration; see quality_loss()
  ReportProgress progress = {};
};

/// The files that were written.
struct ReportFiles {
  std::vector<std::string> charts;       ///< names without extension, in order
  std::vector<std::string> tables = {};  ///< files of tables, in order
  std::vector<LeftOut> left_out;
  std::filesystem::path dashboard;
};

/// Writes into the existing `folder`: every chart that the results allow, in every requested format;
/// `performance_dashboard.html`; and `index.md`, which lists both and the reasons for charts left out. Charts of an
/// earlier report that this one does not have are removed. Throws Error if a file cannot be written, or if a PNG,
/// SVG or PDF is requested on a machine without librsvg.
[[nodiscard]] ReportFiles write_report(const Dataset& dataset, const std::filesystem::path& folder,
                                       const ReportOptions& options);

}  // namespace headroom
