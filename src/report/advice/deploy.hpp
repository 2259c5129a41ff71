#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "report/advice/quality_loss.hpp"
#include "report/dataset.hpp"
#include "report/view.hpp"

/// The one rule of a report: which configuration to deploy. The headline, the advice and the order of adoption are
/// all read from a Decision.
namespace headroom {

/// A configuration of Headroom, with the figures that a decision needs.
struct Candidate {
  const Measurement* measurement = nullptr;
  const Scenario* scenario = nullptr;
  double request_ms = 0;                ///< from start to the last image of a request
  double per_second = 0;                ///< images, frames of a stream, or samples of passes
  std::optional<KnownLoss> loss;        ///< nothing where it was not measured
  std::optional<Estimate> on_baseline;  ///< speedup over the baseline
};

/// A switch, or several that were added together, and whether the deployed configuration has it.
struct Adoption {
  std::vector<std::string> switches;
  bool adopt = false;
  std::string reason;                   ///< why it is adopted or not: "faster", "beyond the quality limit"
  std::optional<Estimate> alone;        ///< speedup over the baseline
  std::optional<Estimate> on_previous;  ///< speedup over the configuration before it in the ladder
};

/// The decision for one view. Candidates are the configurations of the run that is drawn and, for those that it
/// lacks, the latest measurement. A candidate is eligible if assess_quality() puts its quality loss within the
/// limit and its times are settled. `deploy` is the eligible candidate with the lowest request latency, and no
/// eligible candidate is known to be faster. Ties (the 95% interval of the factor holds 1) go to the run that is
/// drawn. Within one run they go to the candidate that is_better_in_quality(), then to the one with the fewest
/// switches. Empty if no loss is within the limit.
struct Decision {
  std::optional<Candidate> deploy;
  /// Among the eligible candidates; `deploy` itself rather than one that is equal to it in time.
  std::optional<Candidate> highest_throughput;
  std::optional<Candidate> least_memory;  ///< among the eligible candidates
  /// The fastest candidates of the same work that are faster than `deploy` and not equal to it in time: one that loses
  /// more than the limit, one that may lose more but has too few images to tell, and one of unknown quality.
  std::optional<Candidate> faster_beyond;
  std::optional<Candidate> faster_unresolved;
  std::optional<Candidate> faster_unknown;
  /// Why `deploy` is not known to be the fastest eligible candidate, one clause: its factors over the others have no
  /// interval. Empty if they have one, or if there is no other.
  std::string doubt;
  std::vector<std::string> beyond_limit;  ///< configurations that lose more than the limit
  std::vector<std::string> unresolved;
  std::vector<std::string> unknown;
  /// Live streams whose frames come faster than they are taken, each with the rates: their latency is that of a queue
  /// which grows, and would be another for more frames.
  std::vector<std::string> overrun;
  std::vector<std::string> unsettled;  ///< each with the reason: "fuse (its rounds disagree: ...)"; with
                                       ///< the batch where the view has several
  std::vector<Adoption> adoption;      ///< switches of the ladder of `deploy`, in the order in which they were added

  /// The candidate whose figures a view shows: `deploy`, else the fastest one whose quality is unresolved, beyond
  /// the limit, or unknown.
  [[nodiscard]] const Candidate* shown() const;
};

/// `max_quality_loss` is as in quality_loss().
[[nodiscard]] Decision decide(const Dataset& dataset, const View& view, double max_quality_loss);

}  // namespace headroom
