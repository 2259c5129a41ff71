// Trials in the order they ran, for the configuration of a work that was measured most often, over those of the
// previous measurement. Only this chart shows drift, jumps and bimodal times.

#include <fmt/format.h>

#include <algorithm>

#include "measure/results/timing.hpp"
#include "report/charts/charts.hpp"
#include "report/plots/option.hpp"
#include "report/plots/trial_plot.hpp"

namespace headroom::charts {

Drawn trials_over_time(const Dataset& dataset) {
  Drawn drawn{.charts = {}, .left_out = "no configuration of a model was timed twice"};
  for (const Scenario& scenario : dataset.scenarios()) {
    if (scenario.subject.kind != SubjectKind::kModel) continue;  // streams have latency_over_time
    const Measurement *drawn_last = nullptr, *before = nullptr;
    for (const Measurement* m : scenario.current)
      if (const Measurement* base = measured_before(scenario, *m); base != nullptr && m->timing && !m->is_peer) {
        drawn_last = m;
        before = base;
        break;
      }
    if (drawn_last == nullptr || drawn_last->time().series != before->time().series) continue;
    const std::string& what = drawn_last->time().series;
    drawn.charts.push_back(
        {.file = numbered("trials_over_time", drawn.charts.size()),
         .title = fmt::format("Each {} of {}, in the order they ran", unit_of_series(what), drawn_last->shown_name()),
         .subtitle = subtitle_of(scenario),
         .of = {&scenario},
         .option = trial_plot(what, *find_times(*drawn_last->result, what), *find_times(*before->result, what)),
         .notes = {fmt::format("This run: {} at {}; the previous one: {} at {}.", drawn_last->file->created,
                               drawn_last->revision(), before->file->created, before->revision())},
         .height = 420});
  }
  return drawn;
}

}  // namespace headroom::charts
