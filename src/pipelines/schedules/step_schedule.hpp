#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace headroom {

/// Records of denoise loops from which the cost of skipping denoiser calls is computed, for the switch `meancache`. A
/// skipped call extrapolates the last two computed predictions linearly in the noise level. If only one exists, or
/// both have the same level, it repeats the last.
struct LoopRecord {
  std::vector<double> levels;    ///< [calls]: noise levels, in any unit
  std::vector<double> weights;   ///< [calls]: factor by which an error of a prediction changes the final sample
  std::vector<double> products;  ///< [calls, calls]: inner products of predictions, averaged over images

  [[nodiscard]] std::size_t calls() const { return levels.size(); }
  [[nodiscard]] double product(std::size_t a, std::size_t b) const { return products[a * calls() + b]; }
};

/// A choice of computed calls, and its cost.
struct StepSchedule {
  std::string digits;  ///< a digit for each call: 1 computed, 0 skipped
  double error = 0;
  friend bool operator==(const StepSchedule&, const StepSchedule&) = default;
};

/// The schedule of spread_steps() (passes/step_caches/step_cache_options.hpp).
[[nodiscard]] std::string spread_schedule(std::size_t computed, std::size_t calls);

/// The change of the sample caused by all skipped calls of a schedule: the root mean square over images of the
/// weighted sum of their errors, some of which cancel. The schedule's first call is computed.
[[nodiscard]] double error_of_schedule(const LoopRecord& record, std::string_view digits);

/// The schedules of 1, 2, ..., calls - 1 computed calls with the least cost, if the errors of runs of skipped calls
/// are independent: `error` is the root of the sum of their squares. Exact, by dynamic programming. The cost of a run
/// depends on the two computed calls before it and the one after it. The best schedule that ends in each pair of
/// computed calls, with a given number of computed calls, therefore follows from the best ones for earlier pairs.
/// Time grows with the fourth power of the calls, memory with the third.
[[nodiscard]] std::vector<StepSchedule> find_independent_schedules(const LoopRecord& record);

/// The same for dependent errors: `error` is error_of_schedule(). A local search starts from those schedules and from
/// evenly spaced ones. It moves one computed call at a time between its neighbors while that reduces the error.
[[nodiscard]] std::vector<StepSchedule> find_schedules(const LoopRecord& record);

/// Candidate schedules for 1, 2, ..., calls - 1 computed calls, without duplicates: the evenly spaced one first, then
/// those of find_independent_schedules() and find_schedules(), with the record's weights and with weights times
/// `feedback` [calls].
[[nodiscard]] std::vector<std::vector<std::string>> candidate_schedules(const LoopRecord& record,
                                                                        std::span<const double> feedback);

}  // namespace headroom
