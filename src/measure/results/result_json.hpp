#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "measure/results/result.hpp"

namespace headroom {

/// What must hold across the members of a file, on writing and on reading; throws Error naming the result.
void check_results(const ResultFile& file);

/// The JSON of a file of results, of at most 256 MiB. Throws Error where it cannot be read or is none.
[[nodiscard]] nlohmann::json read_result_json(const std::filesystem::path& path);

/// Whether check_created() takes it.
[[nodiscard]] bool is_date_of_results(const std::string& created);
/// Refuses what is no moment of the years 2000 to 2199 in UTC, written "2026-01-31T23:59:59Z": texts of this form sort
/// by time.
void check_created(const std::string& created);

/// Puts the statistics of the trials in place of those that were stored, so that no figure is shown which the trials do
/// not give. Throws Error where a stored one disagrees by more than rounding. Another program's interval may be of
/// other resamples, and its outliers of other rounding: its interval need only lie around the median and within the
/// trials.
void recompute_statistics(Result& result);

}  // namespace headroom
