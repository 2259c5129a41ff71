#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "report/dataset.hpp"
#include "report/ladder_view.hpp"
#include "report/quality_loss.hpp"

namespace headroom {

/// A configuration that could be deployed: one of ours whose loss is known and within the limit.
struct Candidate {
  const Measurement* measurement = nullptr;
  double request_ms = 0;         ///< from start to the last image of a request
  double images_per_second = 0;  ///< 0 where the unit is not an image or a forward pass
  QualityLoss loss;
};

/// What to deploy for one model and request on one machine, over all batch sizes that were measured.
struct Recommendation {
  std::string work;      ///< in words, without the batch size
  std::string hardware;  ///< in words
  std::optional<Candidate> lowest_latency;
  std::optional<Candidate> highest_throughput;
  std::optional<Candidate> least_memory;
  std::vector<std::string> beyond_limit;  ///< configurations that lose more
  std::vector<std::string> unknown;       ///< whose loss nobody measured
  std::vector<std::string> unsettled;     ///< whose times are no facts
};

/// One for each model, request (but for its batch size) and machine with a ladder. `max_quality_loss` as
/// quality_loss().
[[nodiscard]] std::vector<Recommendation> recommend(const Dataset& dataset, double max_quality_loss);

/// What measurement says of a switch on top of those before it.
enum class AdoptionVerdict : std::uint8_t { kFaster, kNoDifference, kSlower, kUnknown };
/// By the interval of the factor: above 1, around 1, below 1; unknown without an interval.
[[nodiscard]] AdoptionVerdict verdict_of(const std::optional<Estimate>& factor);

}  // namespace headroom
