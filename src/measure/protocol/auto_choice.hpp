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

/// What bounds the preset `auto`.
struct AutoLimits {
  double seconds = 10;      ///< after which no more is tried
  double max_error = 5e-2;  ///< relative L2 of an output against the baseline's
  /// How much worse what a whole denoise loop makes may become (AutoBench::loss) by calling the denoiser less; 0 where
  /// it is not to be called less.
  double max_request_error = 0;
};

/// Times of one thing under two sets of switches, measured in turn.
struct PairedTimes {
  std::vector<double> a_ms;
  std::vector<double> b_ms;
};

/// What the chooser needs measured. RequestBench measures a real request; tests have figures of their own.
class AutoBench {
 public:
  virtual ~AutoBench() = default;
  /// Makes the set ready to be measured beside `current`, and says which of its switches declined. Throws Error where
  /// it is not a legal combination.
  virtual std::vector<Declined> build(const SwitchSet& set, const SwitchSet& current) = 0;
  /// Relative L2 of an output against the baseline's, on the same inputs.
  virtual double error(const SwitchSet& set) = 0;
  /// Ways to run a denoise loop with fewer calls of the denoiser that may be tried, each a list of switches (fewer
  /// steps of a better sampler, a step cache), those first that call it least. None where there is no loop, and where
  /// weights are random, so that nothing can be said of what they make.
  virtual std::vector<std::string> cheaper_loops() = 0;
  /// How much worse what a loop makes of the same noise becomes by them, of a set against `current`, and what is
  /// measured.
  struct Loss {
    double value = 0;
    std::string what;  ///< "the relative L2 of its latents"
  };
  virtual Loss loss(const SwitchSet& set, const SwitchSet& current) = 0;
  /// Times of two sets that build() has seen, in about so many seconds and as many as have an interval, however few the
  /// seconds: of whole loops where one is cheaper.
  virtual PairedTimes time(const SwitchSet& a, const SwitchSet& b, double seconds) = 0;
};

/// A choice and how it came about.
struct AutoChoice {
  SwitchSet switches;
  std::vector<AutoTrial> trials;
};

/// Chooses a fast set of switches that contains `fixed`. It begins with every exact switch, adds each inexact one that
/// pays and keeps within max_error, then tries to leave out each, and goes around again while the set changes. An
/// inexact switch is on only if it makes the request faster by more than 1%, with 95% confidence, and an exact one is
/// off only if it makes it slower by as much: it costs no quality, and may save memory. Last of all comes a cheaper
/// loop, the first that pays within max_request_error, or one behind it that is as fast and is_better_in_quality().
/// Other switches with an argument change what is asked for and are never chosen.
[[nodiscard]] AutoChoice choose_switches(AutoBench& bench, const SwitchSet& fixed, const AutoLimits& limits,
                                         const MillisecondClock& clock = steady_clock_ms);

/// The trials as a table.
[[nodiscard]] Printout to_table(const AutoChoice& choice);

}  // namespace headroom
