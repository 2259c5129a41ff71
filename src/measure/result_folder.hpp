#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "measure/result.hpp"

namespace headroom {

/// A result file with the path that it was read from.
using NamedResults = std::pair<std::string, ResultFile>;

/// Every result file below `folder` (*.json, *.json.gz), by path. What cannot be read as one is left out, and named in `left_out`
/// with the reason; so are folders that may not be entered. Throws Error where `folder` is none or holds no result
/// file.
[[nodiscard]] std::vector<NamedResults> read_result_folder(const std::filesystem::path& folder,
                                                           std::vector<std::string>& left_out);

}  // namespace headroom
