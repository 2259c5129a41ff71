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
  Trials trials = time_submissions(
      backend_, run.stream(), [&] { run.submit(); }, protocol_);
  return known_.emplace_back(spec, std::move(trials.wall_ms)).second;
}

double AloneTimes::ms(const OpSpec& spec) { return median(times_ms(spec)); }

}  // namespace headroom
