#include "measure/probes/alone_times.hpp"

#include <algorithm>
#include <utility>

#include "measure/protocol/op_run.hpp"
#include "measure/protocol/submissions.hpp"
#include "measure/statistics/statistics.hpp"

namespace headroom {

const std::vector<double>& AloneTimes::times_ms(const OpSpec& spec) {
  if (const auto known = std::ranges::find(known_, spec, &Known::first); known != known_.end()) return known->second;
  OpRun run(backend_, spec, OpForm::kWhole, new_work_);
  const auto once_ms = [&] {
    const double start_ms = steady_clock_ms();
    run.run();
    return steady_clock_ms() - start_ms;
  };
  if (once_ms() >= 1000 * protocol_.max_seconds)  // the first one may only have been slow to begin
    if (const double ms = once_ms(); ms >= 1000 * protocol_.max_seconds)
      return known_.emplace_back(spec, std::vector{ms}).second;
  Trials trials = time_submissions(
      backend_, run.stream(), [&] { run.submit(); }, protocol_);
  return known_.emplace_back(spec, std::move(trials.wall_ms)).second;
}

double AloneTimes::ms(const OpSpec& spec) { return median(times_ms(spec)); }

}  // namespace headroom
