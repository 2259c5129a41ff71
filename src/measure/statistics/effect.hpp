#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "measure/statistics/statistics.hpp"

/// Estimates how much slower one build is than another. The unit of replication is the process: trials of one process
/// share its memory layout, neighbours and clock. Two processes of one build therefore differ by more than the spread
/// of their trials.
namespace headroom {

/// Trials of a benchmark, in ms, by process.
using ProcessTrials = std::vector<std::vector<double>>;

/// Why two results of one process each have no interval.
inline constexpr const char* kOneProcessEach = "one process on each side says nothing of how processes differ";

/// A difference between two builds.
struct Effect {
  double ratio = 1;                  ///< of times, new / base: over 1 where new is slower
  std::optional<Interval> interval;  ///< 95%, of the ratio; absent if there are too few processes
  double p = 1;                      ///< p-value of the hypothesis that the builds are equal
  std::int64_t base_processes = 0;
  std::int64_t new_processes = 0;
  bool paired = false;
  std::string limit = {};  ///< why there is no interval, or what widens it apart from the spread; one clause, or empty
};

/// The variance of the logarithm of a process's median, estimated from its trials alone by exact_median_interval(). 0
/// for fewer than 6 trials, which have no such interval. Used for rounds, which add a variance of their own.
[[nodiscard]] double log_median_variance(std::span<const double> trials);

/// The effect between processes that ran in alternation, process i of one build paired with process i of the other.
/// It is the median over pairs of log(median of new / median of base). Up to 20 pairs the interval is that of
/// exact_median_interval() (none below 6 pairs), and above if processes have a single trial each. Otherwise it is a
/// hierarchical bootstrap of pairs and of trials within them (Kalibera and Jones, "Rigorous benchmarking in reasonable
/// time", ISMM 2013). It spans at least one
/// clock_tick(). p is Mann and Whitney's on the medians of processes. Throws Error if the builds have different
/// numbers of processes, a process has no trials, or a time is not finite and positive.
[[nodiscard]] Effect paired_effect(std::span<const std::vector<double>> base,
                                   std::span<const std::vector<double>> changed, const Bootstrap& bootstrap = {});

/// paired_effect() of times that were measured alternately in one process, time i of one side next to time i of the
/// other, as the factor by which `changed` is faster: over 1 if it is. Throws Error as paired_effect() does.
[[nodiscard]] Estimate paired_factor(std::span<const double> base, std::span<const double> changed);

/// The effect between processes that ran at different times: the quotient of the medians, over processes, of their
/// medians. Each end of the interval is the widest of:
/// - Student's, from the pooled variance between processes of one build, times pi/2 for the median's efficiency and
///   variance_inflation() for processes that depend on those before them;
/// - the distribution-free intervals of both medians (exact_median_interval(), or from the smallest to the largest),
///   or a clock_tick(), combined as independent errors (Zou and Donner, "Construction of confidence limits about
///   effect measures", Statistics in Medicine 27, 2008);
/// - if the medians drift (serial_dependence()), the ranges of both builds, since a drift seen in each may have
///   continued between them.
/// p is Mann and Whitney's, which can be below 5% with at least 4 processes on each side.
///
/// With one process on each side, the variance between processes is unknown. There is then no interval, unless
/// `process_noise` (the standard deviation between processes, as a fraction) is given. With it, the interval has the
/// same parts, computed from trials instead of processes and with each side's own variance. The noise is added as an
/// estimate from 6 processes. This needs kFewestForInterval trials on each side. p is that of a normal distribution
/// with such an interval. Throws Error as paired_effect() does, but the numbers of processes may differ.
[[nodiscard]] Effect unpaired_effect(std::span<const std::vector<double>> base,
                                     std::span<const std::vector<double>> changed,
                                     std::optional<double> process_noise = std::nullopt);

}  // namespace headroom
