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

/// Told how many of the files have been read; calls never overlap.
using ReadProgress = std::function<void(std::int64_t done, std::int64_t total)>;

/// Every result file below `folder` (*.json, *.json.gz), by path, as read_measurements() reads them, several at once. What cannot
/// be read as one is left out, and named in `left_out` with the reason; so are folders that may not be entered. Throws
/// Error where `folder` is none or holds no result file.
[[nodiscard]] std::vector<NamedResults> read_result_folder(const std::filesystem::path& folder,
                                                           std::vector<std::string>& left_out,
                                                           const ReadProgress& progress = {});

}  // namespace headroom
