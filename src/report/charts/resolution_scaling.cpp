// Time against resolution in image tokens: baseline, the fastest configuration, peers.

#include <fmt/format.h>

#include "report/charts/charts.hpp"
#include "report/option.hpp"
#include "report/sweep.hpp"

namespace headroom::charts {

Drawn resolution_scaling(const Dataset& dataset) {
  Drawn drawn;
  for (const Sweep& sweep : sweeps_over(dataset, resolution_keys(), image_tokens_of)) {
    const std::vector<SweepLine> lines = lines_of(sweep);
    if (lines.empty()) continue;
    const std::string y_name = fmt::format("time per {}", unit_of(lines));
    drawn.charts.push_back({.file = numbered("resolution_scaling", drawn.charts.size()),
                            .title = "How time grows with resolution",
                            .subtitle = fmt::format("{}; {}", sweep.work, sweep.hardware),
                            .of = dataset.scenarios_of(measurements_of(lines)),
                            .option = sweep_option(sweep, lines, "image tokens",
                                                   {.name = y_name, .of_time = [](double, double ms) { return ms; }}),
                            .notes = {"Whiskers are the 95% bootstrap interval of the median."}});
    note_revisions(drawn.charts.back().notes, measurements_of(lines));
  }
  drawn.left_out = "no configuration was measured at two resolutions, all else equal";
  return drawn;
}

}  // namespace headroom::charts
