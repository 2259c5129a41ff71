#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "measure/results/result.hpp"

namespace headroom {

/// Checks the invariants across the members of a file, on writing and on reading; throws Error naming the result.
void check_results(const ResultFile& file);

/// The JSON of a result file of at most 256 MiB. Throws Error if it cannot be read or is not JSON.
[[nodiscard]] nlohmann::json read_result_json(const std::filesystem::path& path);

/// Whether check_created() accepts it.
[[nodiscard]] bool is_date_of_results(const std::string& created);
/// Throws Error unless the text is a UTC time of the years 2000 to 2199, written "2026-01-31T23:59:59Z": texts of
/// this form sort by time.
void check_created(const std::string& created);

/// Replaces stored statistics by those computed from the trials, so that every figure shown follows from the trials.
/// Throws Error if a stored value differs by more than rounding. Another program's interval may come from other
/// resamples, and its outliers from other rounding. So its interval must only contain the median and lie within the
/// trials.
void recompute_statistics(Result& result);

}  // namespace headroom
