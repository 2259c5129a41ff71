#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "measure/results/result.hpp"
#include "measure/statistics/statistics.hpp"

/// The time of a result and the factor between two results, as every table, chart and advice gives them.
namespace headroom {

/// The time of one unit of work. If a result has the series "step", the unit is an image and the trials are those
/// of the steps: (median prologue + steps * step) / images.
struct Timing {
  std::string unit;  ///< "image", "forward pass", "launch", "frame", or the name of the only series
  std::string series;
  std::vector<double> trials_ms;  ///< times of one unit, in the order they ran
  double median_ms = 0;
  std::optional<Interval> interval_ms;  ///< 95% interval of the median, of an image that of its prologue included
  std::string no_interval = {};         ///< why there is no interval, one clause; empty if there is one
};
/// The timing of a result. The unit of a stream is a frame, and its trials are frame latencies. Empty if the result
/// has no series.
[[nodiscard]] std::optional<Timing> timing_of(const Result& result);

/// What a trial of the series of that name is: "forward pass" for "forward", else the name.
[[nodiscard]] std::string unit_of_series(std::string_view series);

/// The 95% interval of a series' median. None if it has too few trials, or is of a single visit of a ladder, which
/// says nothing of how visits differ.
[[nodiscard]] std::optional<Interval> interval_of(const TrialSeries& series);

/// Why a series has no interval_of(), one clause; empty if it has one.
[[nodiscard]] std::string why_no_interval(const TrialSeries& series);

/// A line below a table whose intervals are of this series: how many trials one takes, by the result with the fewest,
/// which rows have too few, unless all do, and the option that gives more, if there is one. Empty if all have enough.
[[nodiscard]] std::string remark_on_few_trials(std::span<const Result> results, std::string_view series,
                                               std::string_view option);

/// What find_disturbance() finds in most of the processes that measured a series, or in most of a suite's rounds. A
/// trial was observed during this many steps; `trial` is the word for one of them.
[[nodiscard]] std::optional<std::string> find_disturbance(const TrialSeries& series, double observed,
                                                          std::string_view trial);

/// Why the times of a result are not reliable, one clause: what its ladder found (Result::unsettled); for other
/// requests, passes, kernels and loads of weights, what find_disturbance() finds in most of the processes or rounds
/// that measured it. Nothing if no problem was found.
[[nodiscard]] std::optional<std::string> why_unsettled(const Result& result);

/// A line below a table that names the first unsettled result and the number of others; empty if there is none.
[[nodiscard]] std::string remark_on_unsettled(std::span<const Result> results);

/// Why a ratio of medians with this result has no interval, one clause: its time has none, or all its trials are of
/// one process, which says nothing of how processes differ. Empty if the ratio has one.
[[nodiscard]] std::string why_no_factor_interval(const Result& result);

/// How many times as fast `other` is as `base`, with its 95% interval. Between rungs of one ladder, and so of one
/// file, it comes from their rounds (round_factor()); otherwise it is the ratio of medians (ratio_of()).
/// Empty if either has no time over zero, or if their units differ. A ratio of medians has no interval if either
/// result has a why_no_factor_interval(). Callers ask why_unsettled() of both first: an unsettled time has no factor.
[[nodiscard]] std::optional<Estimate> speedup(const Result& base, const Result& other, bool is_one_file);

}  // namespace headroom
