// Time against image size: baseline, fastest configuration, peers.

#include <fmt/format.h>

#include "report/charts/charts.hpp"
#include "report/sweep.hpp"

namespace headroom::charts {

Drawn resolution_scaling(const Dataset& dataset) {
  Drawn drawn;
  for (const Sweep& sweep : sweeps_over_sizes(dataset)) {
    const std::vector<SweepLine> lines = lines_of(sweep);
    if (lines.empty()) continue;
    const std::string y_name = fmt::format("time per {}", unit_of(lines));
    drawn.charts.push_back(
        {.file = numbered("resolution_scaling", drawn.charts.size()),
         .title = "How time grows with resolution",
         .subtitle = fmt::format("{}; {}", sweep.work, sweep.hardware),
         .of = dataset.scenarios_of(measurements_of(lines)),
         .option = sweep_option(sweep, lines, size_axis_name(sweep), {.name = y_name, .of = from_time()}),
         .notes = notes_on(sweep, lines, "{}")});
    fit_sweep(drawn.charts.back());
  }
  drawn.left_out = "no configuration was measured at two resolutions, all else equal";
  return drawn;
}

}  // namespace headroom::charts
