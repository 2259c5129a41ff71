#pragma once

#include <optional>
#include <string>
#include <vector>

#include "report/dataset.hpp"

namespace headroom {

/// A configuration among those of one work on one machine, beside the baseline.
struct RungView {
  const Measurement* measurement = nullptr;
  std::string label;                    ///< "baseline", "tile (declined)", "+ bf16 (unsettled)" for what a rung adds
  std::vector<std::string> added;       ///< switches that it adds to the baseline; in `cumulative` to the rung before
  std::optional<Estimate> on_baseline;  ///< how many times faster than the baseline
  std::optional<Estimate> on_previous;  ///< than the rung before, in `cumulative`

  /// Nothing that it adds was on: it is what it would add to.
  [[nodiscard]] bool is_declined() const;
  /// Its times are no facts, and it has no factors.
  [[nodiscard]] bool is_unsettled() const { return measurement->result->unsettled.has_value(); }
  /// What stands beside its time: "  1.87x [1.80, 1.95]", "  unsettled", or nothing.
  [[nodiscard]] std::string mark(const std::optional<Estimate>& factor) const;
};

/// What all switches together do against what each does alone, as the ladder's table tells it: over the rounds that all
/// of them have. Of results without rounds, products of medians' factors, whose intervals add up.
struct Synergy {
  Estimate combined;  ///< the factor of all together
  Estimate product;   ///< of the factors of each alone
  Estimate quotient;  ///< of both
};

/// The configurations of a scenario that has a baseline: Headroom's result without any switch.
struct LadderView {
  const Scenario* scenario = nullptr;
  RungView baseline;
  std::vector<RungView> singles;     ///< one switch alone, in pipeline order
  std::vector<RungView> cumulative;  ///< from the first switch alone to all together; each adds to the one before
  std::vector<RungView> others;      ///< other sets of switches
  std::vector<RungView> peers;

  /// All together; null where no rung has more than one switch.
  [[nodiscard]] const RungView* combined() const;
  /// Nothing where a switch of `combined` that did not decline was not measured alone, or one of them is not settled.
  [[nodiscard]] std::optional<Synergy> synergy() const;
  /// Every rung once: baseline, singles, cumulative from the second on, others, peers.
  [[nodiscard]] std::vector<const RungView*> all() const;
};

/// The ladder of a scenario; nothing where it is of a kernel, has no baseline with a time, or nothing beside it. Where
/// results differ in the precision of their baseline, those of the first.
[[nodiscard]] std::optional<LadderView> ladder_of(const Dataset& dataset, const Scenario& scenario);
/// Those of all scenarios.
[[nodiscard]] std::vector<LadderView> ladders_of(const Dataset& dataset);

}  // namespace headroom
