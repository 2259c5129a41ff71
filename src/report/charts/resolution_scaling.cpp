// Time against image size: baseline, fastest configuration, peers.

#include <fmt/format.h>

#include <algorithm>

#include "report/charts/charts.hpp"
#include "report/plots/option.hpp"
#include "report/sweep.hpp"

namespace headroom::charts {

Drawn resolution_scaling(const Dataset& dataset) {
  Drawn drawn;
  for (Sweep sweep : sweeps_over(dataset, resolution_keys(), image_area_of)) {
    for (SweepPoint& point : sweep.points) point.name = describe_size(point.scenario->subject);
    const std::vector<SweepLine> lines = lines_of(sweep);
    if (lines.empty()) continue;
    const bool in_pixels = std::ranges::all_of(
        sweep.points, [](const SweepPoint& point) { return is_size_in_pixels(point.scenario->subject); });
    const std::string y_name = fmt::format("time per {}", unit_of(lines));
    drawn.charts.push_back(
        {.file = numbered("resolution_scaling", drawn.charts.size()),
         .title = "How time grows with resolution",
         .subtitle = fmt::format("{}; {}", sweep.work, sweep.hardware),
         .of = dataset.scenarios_of(measurements_of(lines)),
         .option = sweep_option(sweep, lines, in_pixels ? "size of an image in pixels" : "size of an image",
                                {.name = y_name, .of_time = [](double, double ms) { return ms; }}),
         .notes = {"Whiskers are the 95% interval of the median."}});
    fit_sweep(drawn.charts.back());
    for (std::string& note : notes_on(sweep, lines, "{}")) drawn.charts.back().notes.push_back(std::move(note));
  }
  drawn.left_out = "no configuration was measured at two resolutions, all else equal";
  return drawn;
}

}  // namespace headroom::charts
