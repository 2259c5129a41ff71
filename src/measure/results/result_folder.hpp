#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "measure/results/result.hpp"

namespace headroom {

/// A result file with the path that it was read from.
using NamedResults = std::pair<std::string, ResultFile>;

/// Receives the number of files that have been read; calls never overlap.
using ReadProgress = std::function<void(std::int64_t done, std::int64_t total)>;

/// Reads every result file below `folder` (*.json, *.json.gz) by read_measurements(), several at once, and sorts them
/// by path. Files that cannot be read, and folders that may not be entered, are skipped and listed in `left_out` with
/// the reason. Throws Error if `folder` is not a folder or holds no result file.
[[nodiscard]] std::vector<NamedResults> read_result_folder(const std::filesystem::path& folder,
                                                           std::vector<std::string>& left_out,
                                                           const ReadProgress& progress = {});

}  // namespace headroom
