#pragma once

#include <cstddef>
#include <vector>

#include "report/chart.hpp"
#include "report/dataset.hpp"
#include "report/ladder_view.hpp"

/// The kinds of charts. Each turns results into options and says which data it lacks where there is nothing to draw.
namespace headroom {

namespace charts {
#define HR_CHART(name) [[nodiscard]] Drawn name(const Dataset& dataset);
#include "report/charts/charts.def"
#undef HR_CHART
}  // namespace charts

/// A chart of every ladder with two rungs or more above the baseline; `draw` is told how many there are already.
[[nodiscard]] Drawn draw_ladders(const Dataset& dataset, Chart (*draw)(const LadderView& ladder, std::size_t index));

/// Everything that `dataset` allows to draw, and what it does not.
struct ChartSet {
  std::vector<Chart> charts;
  std::vector<LeftOut> left_out;
};
[[nodiscard]] ChartSet draw_charts(const Dataset& dataset);

}  // namespace headroom
