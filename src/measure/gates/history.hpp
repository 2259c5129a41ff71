#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <vector>

#include "measure/results/result.hpp"
#include "measure/statistics/change_points.hpp"
#include "measure/tables/printout.hpp"

namespace headroom {

/// The measurements of a benchmark at one revision.
struct HistoryPoint {
  std::string created;    ///< of the first file, in UTC
  std::string revision;   ///< headroom's git revision, or another program's version; or "unknown"
  double median_ms = 0;   ///< median of the medians of its runs
  std::int64_t runs = 1;  ///< number of results with this measurement
};

/// Merges the runs of each revision into one point: differences between them are noise of the machine, not a step.
/// Points are in the order of each revision's first measurement; `runs` must be in time order.
[[nodiscard]] std::vector<HistoryPoint> merge_revisions(std::span<const HistoryPoint> runs);

/// The revision of a result, in the form used by HistoryPoint.
[[nodiscard]] std::string revision_of(const ResultFile& file, const Result& result);

/// A benchmark over several revisions, on one kind of machine.
struct BenchmarkHistory {
  std::string name;                  ///< of BenchmarkNames, with the series
  std::string machine;               ///< describe_hardware() of the machine
  std::vector<HistoryPoint> points;  ///< of merge_revisions()
  std::vector<ChangePoint> steps;    ///< of the medians in ms; index is into points
};

/// The steps between revisions, found in the logarithms of times because noise is proportional to the time; `before`
/// and `after` are in ms.
[[nodiscard]] std::vector<ChangePoint> find_time_steps(std::span<const HistoryPoint> points,
                                                       const ChangePointOptions& options = {});

/// The histories in result files, which may be in any order. Results of equal work, source, name, baseline and
/// machine belong together. The first series of each is used.
[[nodiscard]] std::vector<BenchmarkHistory> make_histories(std::vector<ResultFile> files,
                                                           const ChangePointOptions& options = {});

/// One line for each history, then one for each step: its size, the revisions around it, and its confidence. In CSV a
/// history has one line per step, or one line if it has none.
[[nodiscard]] Printout to_table(const std::vector<BenchmarkHistory>& histories);

/// Schema headroom.history/1.
[[nodiscard]] nlohmann::json to_json(const std::vector<BenchmarkHistory>& histories);

}  // namespace headroom
