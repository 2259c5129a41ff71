#pragma once

#include <optional>
#include <string>
#include <vector>

#include "report/dataset.hpp"

namespace headroom {

/// A configuration among those of one work on one machine, compared with the baseline.
struct RungView {
  const Measurement* measurement = nullptr;
  /// "baseline", "tile (declined)"; "+ bf16 (unsettled)" for the added switch of a rung
  std::string label;
  std::vector<std::string> added;       ///< switches added to the baseline; in `cumulative`, to the rung before
  std::optional<Estimate> on_baseline;  ///< speedup over the baseline
  std::optional<Estimate> on_previous;  ///< in `cumulative`: speedup over the rung before

  /// All switches that it adds were declined, so it equals the configuration that it adds to.
  [[nodiscard]] bool is_declined() const;
  /// Its times are not settled, and it has no factors.
  [[nodiscard]] bool is_unsettled() const { return measurement->unsettled.has_value(); }
  /// The label for what does not depend on its times, such as sizes: without "(unsettled)".
  [[nodiscard]] std::string label_without_time() const;
  /// The text after its time: "  1.87x [1.80, 1.95]", "  baseline", "  unsettled", or nothing.
  [[nodiscard]] std::string mark(const std::optional<Estimate>& factor) const;
};

/// The gain of all switches together against the gains of each alone, as in the table of the ladder: over the
/// rounds that all of them have. For results without rounds, the factors of medians are multiplied, and their
/// intervals are combined.
struct Synergy {
  Estimate combined;  ///< the factor of all together
  Estimate product;   ///< of the factors of each switch alone
  Estimate quotient;  ///< combined / product
};

/// The configurations of a scenario with a baseline, which is Headroom's result without any switch.
struct LadderView {
  const Scenario* scenario = nullptr;
  RungView baseline;
  std::vector<RungView> singles;     ///< one switch alone, in pipeline order
  std::vector<RungView> cumulative;  ///< from the first switch alone to all together; each adds to the one before
  std::vector<RungView> others;      ///< other sets of switches
  std::vector<RungView> peers;

  /// The rung with all switches; null if no rung has more than one switch.
  [[nodiscard]] const RungView* combined() const;
  /// Empty if a switch of `combined` that did not decline was not measured alone, or one of them is not settled.
  [[nodiscard]] std::optional<Synergy> synergy() const;
  /// Every rung once: baseline, singles, cumulative from the second on, others, peers.
  [[nodiscard]] std::vector<const RungView*> all() const;
};

/// The ladder of a scenario. Empty for a kernel, without a baseline with a time, or if there is only the baseline.
/// If baselines differ in precision, only results of the first precision count.
[[nodiscard]] std::optional<LadderView> ladder_of(const Dataset& dataset, const Scenario& scenario);
/// The ladders of all scenarios.
[[nodiscard]] std::vector<LadderView> ladders_of(const Dataset& dataset);

}  // namespace headroom
