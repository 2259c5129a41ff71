#pragma once

#include <cstdint>
#include <functional>

#include "measure/protocol/bench_process.hpp"
#include "measure/statistics/comparison.hpp"

namespace headroom {

/// How two builds are run in alternating pairs of processes.
struct PairOptions {
  int pairs = 8;               ///< minimum number of process pairs
  int max_pairs = 32;          ///< pairs are doubled up to this number until is_settled() holds
  std::uint64_t seed = 0;      ///< of the order within pairs
  ComparisonOptions compared;  ///< `paired` is implied
};

struct PairedRuns {
  ResultFile base;  ///< trials of all pairs; process i is of pair i
  ResultFile changed;
  Comparison comparison;
};

/// Whether the base runs first in pair `pair`. Pairs 2k and 2k + 1 run in opposite orders, A B and B A, chosen at
/// random. So neither build always runs first, and a steady drift cancels within two pairs.
[[nodiscard]] bool base_goes_first(int pair, std::uint64_t seed);

/// Runs both builds in pairs, interleaved, until the verdicts are settled or there are max_pairs. After each process,
/// `on_progress` receives the number of processes done and the number planned so far. Throws a usage Error for fewer
/// than 6 pairs, which cannot give an interval.
[[nodiscard]] PairedRuns run_pairs(const BenchRun& base, const BenchRun& changed, const PairOptions& options,
                                   const std::function<void(int done, int total)>& on_progress = {});

}  // namespace headroom
