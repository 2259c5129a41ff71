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

/// What was measured of a benchmark at one revision.
struct HistoryPoint {
  std::string created;    ///< of the first file, in UTC
  std::string revision;   ///< of headroom by git, of another program its version; or "unknown"
  double median_ms = 0;   ///< of the medians of its runs
  std::int64_t runs = 1;  ///< results that it was measured in
};

/// The runs of each revision as one point: what differs between them is noise of the machine, and no step. In the order
/// in which each was first measured; `runs` are in the order of their time.
[[nodiscard]] std::vector<HistoryPoint> merge_revisions(std::span<const HistoryPoint> runs);

/// The revision of a result, as points have it.
[[nodiscard]] std::string revision_of(const ResultFile& file, const Result& result);

/// A benchmark over many revisions, on one kind of machine.
struct BenchmarkHistory {
  std::string name;                  ///< of BenchmarkNames, with the series
  std::string machine;               ///< describe_hardware() of what it ran on
  std::vector<HistoryPoint> points;  ///< of merge_revisions()
  std::vector<ChangePoint> steps;    ///< of the medians in ms; index is into points
};

/// The steps between revisions, found in the logarithms of times because noise is a share of the time; `before` and
/// `after` are in ms.
[[nodiscard]] std::vector<ChangePoint> find_time_steps(std::span<const HistoryPoint> points,
                                                       const ChangePointOptions& options = {});

/// The histories in result files, in any order: results of equal work, source, name, baseline and machine belong
/// together. The first series of each is taken.
[[nodiscard]] std::vector<BenchmarkHistory> make_histories(std::vector<ResultFile> files,
                                                           const ChangePointOptions& options = {});

/// A line for each history, then one for each step: how large, between which revisions, and how sure. In CSV a history has
/// a line for each of its steps, or one where it has none.
[[nodiscard]] Printout to_table(const std::vector<BenchmarkHistory>& histories);

/// Schema headroom.history/1.
[[nodiscard]] nlohmann::json to_json(const std::vector<BenchmarkHistory>& histories);

}  // namespace headroom
