#include "measure/probes/alone_times.hpp"

#include <algorithm>

#include "measure/protocol/op_run.hpp"
#include "measure/protocol/submissions.hpp"
#include "measure/statistics/statistics.hpp"

namespace headroom {

double AloneTimes::ms(const OpSpec& spec) {
  if (const auto known = std::ranges::find(known_, spec, &Known::first); known != known_.end()) return known->second;
  OpRun run(backend_, spec);
  const Trials trials = time_submissions(
      backend_, run.stream(), [&] { run.submit(); }, protocol_);
  return known_.emplace_back(spec, median(trials.wall_ms)).second;
}

}  // namespace headroom
