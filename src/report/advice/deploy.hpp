#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "report/advice/quality_loss.hpp"
#include "report/dataset.hpp"
#include "report/view.hpp"

/// The one rule of a report: what to deploy. Headline, advice and the order of adoption are all read from a Decision.
namespace headroom {

/// A configuration of ours, with what a decision needs to know of it.
struct Candidate {
  const Measurement* measurement = nullptr;
  const Scenario* scenario = nullptr;
  double request_ms = 0;                ///< from start to the last image of a request
  double per_second = 0;                ///< images, or passes or frames where these were timed
  std::optional<KnownLoss> loss;        ///< nothing where it was not measured
  std::optional<Estimate> on_baseline;  ///< how many times as fast
};

/// A switch, or several that were added together, and whether what is deployed has it.
struct Adoption {
  std::vector<std::string> switches;
  bool adopt = false;
  std::string reason;                   ///< what measurement says of it: "faster", "beyond the quality limit"
  std::optional<Estimate> alone;        ///< factor over the baseline
  std::optional<Estimate> on_previous;  ///< over those before it
};

/// Among configurations (of the run that is drawn, and of those that it lacks the latest) whose loss of quality is
/// within the limit by assess_quality() and whose times are settled, `deploy` is that with the lowest latency of a
/// request. Where the 95% interval of a factor holds 1, that of the run that is drawn is taken, and of one run the one
/// that is_better_in_quality(), of equals in both that with the fewest switches; none is taken that another is known to
/// be faster than. Nothing where no loss is within the limit.
struct Decision {
  std::optional<Candidate> deploy;
  std::optional<Candidate> highest_throughput;  ///< of the same
  std::optional<Candidate> least_memory;        ///< of the same
  /// The fastest of the same work that is faster than `deploy` and loses more than the limit; that may lose more, and
  /// its images are too few to tell; and of whose quality nothing is known.
  std::optional<Candidate> faster_beyond;
  std::optional<Candidate> faster_unresolved;
  std::optional<Candidate> faster_unknown;
  std::vector<std::string> beyond_limit;  ///< configurations
  std::vector<std::string> unresolved;
  std::vector<std::string> unknown;
  std::vector<std::string> unsettled;
  std::vector<Adoption> adoption;  ///< of the ladder that `deploy` is of, in the order in which switches were added up

  /// What a view shows the figures of: `deploy`, else the fastest whose quality is not resolved, beyond the limit, or
  /// not known.
  [[nodiscard]] const Candidate* shown() const;
};

/// `max_quality_loss` as quality_loss().
[[nodiscard]] Decision decide(const Dataset& dataset, const View& view, double max_quality_loss);

}  // namespace headroom
