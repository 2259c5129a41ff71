#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/switches.hpp"
#include "measure/protocol/auto_trial.hpp"
#include "measure/statistics/statistics.hpp"
#include "measure/statistics/trials.hpp"
#include "measure/tables/printout.hpp"
#include "passes/pass.hpp"

namespace headroom {

/// Limits of the preset `auto`.
struct AutoLimits {
  double seconds = 10;      ///< no new trial begins after this time
  double max_error = 5e-2;  ///< relative L2 of an output against the baseline's output
  /// The largest AutoBench::loss() that a whole denoise loop may have when it calls the denoiser less often; 0 if it
  /// must not be called less often.
  double max_request_error = 0;
};

/// Times of one operation under two sets of switches, measured alternately.
struct PairedTimes {
  std::vector<double> a_ms;
  std::vector<double> b_ms;
};

/// The measurements that choose_switches() needs. RequestBench measures a real request; tests return fixed figures.
class AutoBench {
 public:
  virtual ~AutoBench() = default;
  /// Prepares the set for measurement against `current`, and returns which of its switches declined. Throws Error if
  /// it is not a legal combination.
  virtual std::vector<Declined> build(const SwitchSet& set, const SwitchSet& current) = 0;
  /// Relative L2 of an output against the baseline's output, on the same inputs.
  virtual double error(const SwitchSet& set) = 0;
  /// Candidate denoise loops with fewer denoiser calls, each a list of switches (fewer steps of a better sampler, a
  /// step cache). Those with the fewest calls come first. Empty if there is no loop, or if the weights are random, so
  /// that the quality of outputs means nothing.
  virtual std::vector<std::string> cheaper_loops() = 0;
  /// How much worse the output of a loop with `set` is than with `current`, from the same noise.
  struct Loss {
    double value = 0;
    std::string what;  ///< the measured quantity: "the relative L2 of its latents"
  };
  virtual Loss loss(const SwitchSet& set, const SwitchSet& current) = 0;
  /// Times of two sets that build() has prepared, in about `seconds`. There are at least as many times as an interval
  /// needs, however short `seconds` is. Whole loops are timed if one of the sets has a cheaper loop.
  virtual PairedTimes time(const SwitchSet& a, const SwitchSet& b, double seconds) = 0;
};

/// A choice and the trials that led to it.
struct AutoChoice {
  SwitchSet switches;
  std::vector<AutoTrial> trials;
};

/// Chooses a fast set of switches that contains `fixed`. It begins with every exact switch, adds each inexact one
/// that pays and keeps within max_error, then tries to remove each. It repeats this while the set changes. An inexact
/// switch is kept only if it makes the request faster by more than 1%, with 95% confidence. An exact switch is
/// removed only if it makes the request slower by as much: it costs no quality, and may save memory. Last comes a
/// cheaper loop: the first that pays within max_request_error, or a later one that is as fast and
/// is_better_in_quality(). Other switches with an argument change the request itself and are never chosen.
[[nodiscard]] AutoChoice choose_switches(AutoBench& bench, const SwitchSet& fixed, const AutoLimits& limits,
                                         const MillisecondClock& clock = steady_clock_ms);

/// The trials as a table.
[[nodiscard]] Printout to_table(const AutoChoice& choice);

}  // namespace headroom
