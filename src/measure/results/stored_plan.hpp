#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string_view>

namespace headroom {

/// Reads a plan that a result file refers to and does not hold: `name` is "plans/HASH.json.gz", below the file's own
/// folder. A result file can hold its plans or refer to them, so that many files share one;
/// bench/peers/share_plans.py moves them out. Throws Error naming the file for another form of name, or a file that
/// is missing, not gzip or larger than 64 MiB.
[[nodiscard]] nlohmann::json read_stored_plan(const std::filesystem::path& folder, std::string_view name,
                                              std::string_view context);

}  // namespace headroom
