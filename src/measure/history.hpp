#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <vector>

#include "measure/change_points.hpp"
#include "measure/result.hpp"

namespace headroom {

/// One measurement in the history of a benchmark.
struct HistoryPoint {
  std::string created;   ///< of its file, in UTC
  std::string revision;  ///< git revision, or "unknown"
  double median_ms = 0;
};

/// A benchmark over many revisions, on one kind of machine.
struct BenchmarkHistory {
  std::string name;                  ///< of BenchmarkNames, with the series
  std::string machine;               ///< describe_hardware() of what it ran on
  std::vector<HistoryPoint> points;  ///< in the order of their time
  std::vector<ChangePoint> steps;    ///< of the medians in ms; index is into points
};

/// The steps in times of one thing, oldest first, found in their logarithms because noise is a share of the time;
/// `before` and `after` are in ms.
[[nodiscard]] std::vector<ChangePoint> find_time_steps(std::span<const double> medians_ms,
                                                       const ChangePointOptions& options = {});

/// The histories in result files, in any order: results of equal work, source, name and machine belong together. The
/// first series of each is taken.
[[nodiscard]] std::vector<BenchmarkHistory> make_histories(std::vector<ResultFile> files,
                                                           const ChangePointOptions& options = {});

/// Every result file below `folder` (*.json); what is no result file is left out, and named in `skipped` with the
/// reason.
[[nodiscard]] std::vector<ResultFile> read_history(const std::filesystem::path& folder,
                                                   std::vector<std::string>& skipped);

/// A line for each history, then one for each step: how large, between which revisions, and how sure.
[[nodiscard]] std::string to_table(const std::vector<BenchmarkHistory>& histories);

/// Schema headroom.history/1.
[[nodiscard]] nlohmann::json to_json(const std::vector<BenchmarkHistory>& histories);

}  // namespace headroom
