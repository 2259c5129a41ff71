#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "measure/statistics/statistics.hpp"

/// How much slower one build is than another. The unit of replication is the process: trials of one process share its
/// memory layout, its neighbours and its clock, so two processes of one build differ by more than their trials say.
namespace headroom {

/// Trials of a benchmark, in ms, by process.
using ProcessTrials = std::vector<std::vector<double>>;

/// A difference between two builds.
struct Effect {
  double ratio = 1;                  ///< of times, new / base: over 1 where new is slower
  std::optional<Interval> interval;  ///< 95%, of the ratio; absent where there are too few processes
  double p = 1;                      ///< that the builds are equal
  std::int64_t base_processes = 0;
  std::int64_t new_processes = 0;
  bool paired = false;
  std::string limit = {};  ///< why there is no interval, or what makes it wide beside the spread; one clause, or empty
};

/// The variance of the logarithm of a process's median, as its trials alone tell it: from exact_median_interval(); 0
/// for fewer than 6, which have no such interval. For rounds, which vary besides.
[[nodiscard]] double log_median_variance(std::span<const double> trials);

/// Of processes that ran in turn, the i-th of one build beside the i-th of the other: the median over pairs of
/// log(median of new / median of base). The interval is that of exact_median_interval() up to 20 pairs (nothing below
/// 6), then a hierarchical bootstrap of pairs and of trials within them (Kalibera and Jones, "Rigorous benchmarking in
/// reasonable time", ISMM 2013); it reaches over one clock_tick() at least. p is Mann and Whitney's on the medians of
/// processes. Throws Error where the builds have different numbers of processes, a process has no trials, or a time is
/// not finite and positive.
[[nodiscard]] Effect paired_effect(std::span<const std::vector<double>> base,
                                   std::span<const std::vector<double>> changed, const Bootstrap& bootstrap = {});

/// Of processes that ran at different times: the quotient of the medians over processes of their medians. The interval
/// reaches on each side as far as the widest of
///   - Student's, from the pooled variance between processes of one build, times pi/2 for the median's efficiency and
///     variance_inflation() for processes that depend on those before them;
///   - the intervals of both medians that no distribution widens (exact_median_interval(), or from the smallest to the
///     largest), or a clock_tick(), combined as independent errors (Zou and Donner, "Construction of confidence limits
///     about effect measures", Statistics in Medicine 27, 2008);
///   - where the medians drift (serial_dependence()), the ranges of both builds, since a drift that is seen in each may
///     have gone on between them.
/// p is Mann and Whitney's, which can be below 5% from 4 processes on each side on.
///
/// With one process on both sides nothing is known of the variance between processes and there is no interval, unless
/// `process_noise` (the standard deviation between processes, as a fraction) is given. The interval then has the same
/// parts, of trials in place of processes, with each side's own variance, and of the noise, as an estimate from 6
/// processes. It takes 4 trials on each side; below 6, where no interval is free of assumptions, Student's is that of
/// 99%. p is that of a normal distribution with such an interval. Throws Error as paired_effect() does, but for the
/// numbers of processes.
[[nodiscard]] Effect unpaired_effect(std::span<const std::vector<double>> base,
                                     std::span<const std::vector<double>> changed,
                                     std::optional<double> process_noise = std::nullopt);

}  // namespace headroom
