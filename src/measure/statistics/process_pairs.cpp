#include "measure/statistics/process_pairs.hpp"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "base/tensors/random.hpp"

namespace headroom {

bool base_goes_first(int pair, std::uint64_t seed) {
  const auto block = static_cast<std::uint32_t>(pair / 2);
  const std::array<std::uint32_t, 2> key = {static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32U)};
  const bool is_abba = (philox4x32({block, 0, 0, 0}, key)[0] & 1U) != 0;
  return is_abba == (pair % 2 == 0);
}

PairedRuns run_pairs(const BenchRun& base, const BenchRun& changed, const PairOptions& options,
                     const std::function<void(int done, int total)>& on_progress) {
  if (options.pairs < kFewestForInterval)
    fail_usage("{} pairs of processes were asked for; {} are the fewest that give a 95% interval", options.pairs,
               kFewestForInterval);
  ComparisonOptions compared = options.compared;
  compared.paired = true;
  std::vector<ResultFile> base_files, new_files;
  int done = 0;
  for (int target = options.pairs;; target = std::min(2 * target, options.max_pairs)) {
    const auto run = [&](const BenchRun& build, std::vector<ResultFile>& files) {
      files.push_back(build());
      if (on_progress) on_progress(++done, 2 * target);
    };
    while (std::ssize(new_files) < target) {
      const bool base_first = base_goes_first(static_cast<int>(std::ssize(new_files)), options.seed);
      if (base_first) run(base, base_files);
      run(changed, new_files);
      if (!base_first) run(base, base_files);
    }
    PairedRuns runs{.base = merge_processes(base_files), .changed = merge_processes(new_files), .comparison = {}};
    runs.comparison = compare_results(runs.base, runs.changed, compared);
    if (is_settled(runs.comparison) || target >= options.max_pairs) return runs;
  }
}

}  // namespace headroom
