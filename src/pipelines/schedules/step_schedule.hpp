#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace headroom {

/// What denoise loops tell of what it costs to skip calls of the denoiser, as the switch `meancache` does: a call that is
/// skipped goes on along the straight line through the last two answers that were computed, by noise level; where there is
/// one, or two at one level, it repeats the last.
struct LoopRecord {
  std::vector<double> levels;    ///< [calls]: noise levels, in any unit
  std::vector<double> weights;   ///< [calls]: by how much more of an answer the sample at the end changes
  std::vector<double> products;  ///< [calls, calls]: of answers with each other, the mean over images

  [[nodiscard]] std::size_t calls() const { return levels.size(); }
  [[nodiscard]] double product(std::size_t a, std::size_t b) const { return products[a * calls() + b]; }
};

/// Which calls to compute, and what that costs.
struct StepSchedule {
  std::string digits;  ///< a digit for each call: 1 is computed, 0 skipped
  double error = 0;
  friend bool operator==(const StepSchedule&, const StepSchedule&) = default;
};

/// The schedule of spread_steps() (passes/step_caches/step_cache_options.hpp).
[[nodiscard]] std::string spread_schedule(std::size_t computed, std::size_t calls);

/// By how much all calls that a schedule skips change the sample together: the root mean square over images of the weighted sum of
/// their errors, some of which cancel. Its first call is computed.
[[nodiscard]] double error_of_schedule(const LoopRecord& record, std::string_view digits);

/// The schedules of 1, 2, ..., calls - 1 computed calls that cost least where the errors of the runs of skipped calls are
/// independent: `error` is the root of the sum of their squares. Exact, by dynamic programming: what a run costs depends on the two
/// computed calls before it and the one behind it, so the best way to get to each pair of computed calls with so many of them is
/// found from the best ways to the pairs before. Time and memory grow with the fourth and third power of the calls.
[[nodiscard]] std::vector<StepSchedule> find_independent_schedules(const LoopRecord& record);

/// The same where they are not: `error` is error_of_schedule(), which is brought down from those and from evenly spread ones by moving one
/// computed call at a time between its neighbours, as long as that helps.
[[nodiscard]] std::vector<StepSchedule> find_schedules(const LoopRecord& record);

/// For 1, 2, ..., calls - 1 computed calls the schedules that may be best, each once: the evenly spread one first, those of
/// find_independent_schedules() and find_schedules() with the record's weights, and with weights times `feedback` // [calls].
[[nodiscard]] std::vector<std::vector<std::string>> candidate_schedules(const LoopRecord& record,
                                                                        std::span<const double> feedback);

}  // namespace headroom
