#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "measure/results/result.hpp"

/// Results of other programs, as results of this one: Google Benchmark, nvbench, hyperfine and trtexec. They are told by
/// their content. What a file does not say (a date, a machine, a revision) stays unknown.
namespace headroom {

/// Where a file does not say what it was measured on, in the place of a device.
inline constexpr std::string_view kUnknownMachine = "unknown machine";

/// The results in a document of one of these programs, nothing where it is of none of them. `path` names the document in
/// errors, and its folder is where nvbench keeps the times of samples. Throws Error, one sentence, where a document of
/// such a program is broken, or has no time that can be read.
[[nodiscard]] std::optional<ResultFile> import_results(const nlohmann::json& json, const std::filesystem::path& path);

/// Reads a result file of this program (read_results()) or of one of those.
[[nodiscard]] ResultFile read_measurements(const std::filesystem::path& path);

/// Whether a result is of a program that import_results() reads, and so has times and nothing else.
[[nodiscard]] bool is_imported(const Result& result);

}  // namespace headroom
