#pragma once

#include <cstdint>
#include <functional>

#include "measure/protocol/bench_process.hpp"
#include "measure/statistics/comparison.hpp"

namespace headroom {

/// How two builds are run beside each other.
struct PairOptions {
  int pairs = 8;               ///< of processes, at least
  int max_pairs = 32;          ///< while is_settled() does not hold, pairs are doubled up to here
  std::uint64_t seed = 0;      ///< of the order within pairs
  ComparisonOptions compared;  ///< `paired` is implied
};

struct PairedRuns {
  ResultFile base;  ///< trials of all pairs; process i is of pair i
  ResultFile changed;
  Comparison comparison;
};

/// Whether the base goes first in that pair. Of pairs 2k and 2k + 1 one is A B and the other B A, in random order, so
/// that neither build always goes first and a steady drift cancels within two pairs.
[[nodiscard]] bool base_goes_first(int pair, std::uint64_t seed);

/// Runs both builds in pairs, interleaved, until the verdicts are settled or there are max_pairs. `on_progress` is told
/// after each process how many are done and how many there will be at present. Throws a usage Error for fewer than 6
/// pairs, which cannot give an interval.
[[nodiscard]] PairedRuns run_pairs(const BenchRun& base, const BenchRun& changed, const PairOptions& options,
                                   const std::function<void(int done, int total)>& on_progress = {});

}  // namespace headroom
