// Time per image against the number of images made at once: baseline, the fastest configuration, peers.

#include <fmt/format.h>

#include "report/charts/charts.hpp"
#include "report/option.hpp"
#include "report/sweep.hpp"

namespace headroom::charts {

Drawn batch_scaling(const Dataset& dataset) {
  Drawn drawn;
  for (const Sweep& sweep : sweeps_over(dataset, {"images", "batch"}, batch_of)) {
    const std::vector<SweepLine> lines = lines_of(sweep);
    if (lines.empty()) continue;
    // A forward pass is of the whole batch; an image is one already.
    const bool is_per_batch = sweep.points.front().scenario->subject.request.contains("batch");
    const auto scale = [=](double batch, double ms) { return is_per_batch ? ms / batch : ms; };
    drawn.charts.push_back({.file = numbered("batch_scaling", drawn.charts.size()),
                            .title = "What an image takes when more are made at once",
                            .subtitle = fmt::format("{}; {}", sweep.work, sweep.hardware),
                            .of = dataset.scenarios_of(measurements_of(lines)),
                            .option = sweep_option(sweep, lines, "images at once", "time per image", scale),
                            .notes = {"Whiskers are the 95% bootstrap interval of the median."}});
    note_revisions(drawn.charts.back().notes, measurements_of(lines));
  }
  drawn.left_out = "no configuration was measured with two batch sizes, all else equal";
  return drawn;
}

}  // namespace headroom::charts
