#include "report/charts/charts.hpp"

#include <utility>

namespace headroom {

ChartSet draw_charts(const Dataset& dataset) {
  ChartSet set;
  const auto take = [&](const char* name, Drawn drawn) {
    if (drawn.charts.empty()) set.left_out.push_back({name, std::move(drawn.left_out)});
    for (Chart& chart : drawn.charts) set.charts.push_back(std::move(chart));
  };
#define HR_CHART(name) take(#name, charts::name(dataset));
#include "report/charts/charts.def"
#undef HR_CHART
  return set;
}

}  // namespace headroom
