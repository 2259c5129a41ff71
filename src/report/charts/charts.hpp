#pragma once

#include <cstddef>
#include <vector>

#include "report/chart.hpp"
#include "report/dataset.hpp"
#include "report/ladder_view.hpp"

/// The kinds of charts. Each function turns results into options. If there is nothing to draw, it reports the
/// missing data.
namespace headroom {

namespace charts {
#define HR_CHART(name) [[nodiscard]] Drawn name(const Dataset& dataset);
#include "report/charts/charts.def"
#undef HR_CHART
}  // namespace charts

/// Draws a chart of every ladder with two rungs or more above the baseline. `draw` receives the number of charts so
/// far.
[[nodiscard]] Drawn draw_ladders(const Dataset& dataset, Chart (*draw)(const LadderView& ladder, std::size_t index));

/// All charts that `dataset` allows, and the kinds that it does not.
struct ChartSet {
  std::vector<Chart> charts;
  std::vector<LeftOut> left_out;
};
[[nodiscard]] ChartSet draw_charts(const Dataset& dataset);

}  // namespace headroom
