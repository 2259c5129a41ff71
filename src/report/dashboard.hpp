#pragma once

#include <string>

#include "report/charts/charts.hpp"
#include "report/dataset.hpp"
#include "report/report.hpp"

namespace headroom {

/// The dashboard, a document that needs nothing else: key figures, `set`, every measurement with its raw trials, the
/// machines, and what to deploy.
[[nodiscard]] std::string make_dashboard(const Dataset& dataset, const ChartSet& set, const ReportOptions& options);

}  // namespace headroom
