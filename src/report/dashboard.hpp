#pragma once

#include <string>

#include "report/charts/charts.hpp"
#include "report/dataset.hpp"
#include "report/report.hpp"

namespace headroom {

/// The dashboard, a self-contained document: key figures, the charts of `set`, every measurement with its raw
/// trials, the machines, and the recommendation of what to deploy.
[[nodiscard]] std::string make_dashboard(const Dataset& dataset, const ChartSet& set, const ReportOptions& options);

}  // namespace headroom
