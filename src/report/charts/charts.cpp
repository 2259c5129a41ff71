#include "report/charts/charts.hpp"

#include <utility>

#include "report/chart_names.hpp"

namespace headroom {

Drawn draw_ladders(const Dataset& dataset, Chart (*draw)(const LadderView& ladder, std::size_t index)) {
  Drawn drawn;
  for (const LadderView& ladder : ladders_of(dataset))
    if (ladder.cumulative.size() >= 2) drawn.charts.push_back(draw(ladder, drawn.charts.size()));
  drawn.left_out = "no ladder was measured: a baseline and switches added one after the other";
  return drawn;
}

ChartSet draw_charts(const Dataset& dataset) {
  ChartSet set;
  const auto take = [&](const char* name, Drawn drawn) {
    if (drawn.charts.empty()) set.left_out.push_back({name, std::move(drawn.left_out)});
    for (Chart& chart : drawn.charts) chart.kind = name;
    for (Chart& chart : drawn.charts) set.charts.push_back(std::move(chart));
  };
#define HR_CHART(name) take(#name, charts::name(dataset));
#include "report/charts/charts.def"
#undef HR_CHART
  name_charts(set.charts);
  return set;
}

}  // namespace headroom
