#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "measure/results/result.hpp"

/// Imports results of other programs: Google Benchmark, nvbench, hyperfine and trtexec, recognized by their content.
/// Facts that a file does not state (a date, a machine, a revision) stay unknown.
namespace headroom {

/// The device name used when a file does not state what it was measured on.
inline constexpr std::string_view kUnknownMachine = "unknown machine";

/// The results in a document of one of these programs; nothing if it is of none of them. `path` names the document in
/// errors; nvbench keeps the times of samples in its folder. Throws Error, one sentence, if a document of such a
/// program is broken or has no time that can be read.
[[nodiscard]] std::optional<ResultFile> import_results(const nlohmann::json& json, const std::filesystem::path& path);

/// Reads a result file of this program (read_results()) or of one of those above.
[[nodiscard]] ResultFile read_measurements(const std::filesystem::path& path);

/// Whether a result is from a program that import_results() reads, and so has times and nothing else.
[[nodiscard]] bool is_imported(const Result& result);

}  // namespace headroom
