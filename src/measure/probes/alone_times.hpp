#pragma once

#include <utility>
#include <vector>

#include "backends/backend.hpp"
#include "ir/infer.hpp"
#include "measure/statistics/trials.hpp"

namespace headroom {

/// Times of ops by themselves, on dense operands with warm caches, each measured at its first use and then kept.
class AloneTimes {
 public:
  /// `backend` must outlive the object.
  AloneTimes(Backend& backend, const Protocol& protocol, NewWork new_work = NewWork::kMeasure)
      : backend_(backend), protocol_(protocol), new_work_(new_work) {}

  /// The times of single launches; a launch that takes longer than the protocol's max_seconds is timed once. Throws
  /// Error if no kernel runs it alone. Valid until the next call.
  const std::vector<double>& times_ms(const OpSpec& spec);
  /// The median of them.
  double ms(const OpSpec& spec);

 private:
  using Known = std::pair<OpSpec, std::vector<double>>;
  Backend& backend_;
  Protocol protocol_;
  NewWork new_work_;
  std::vector<Known> known_;
};

}  // namespace headroom
