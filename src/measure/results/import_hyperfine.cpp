// hyperfine --export-json: {"results": [{"command", "mean", ..., "times": [seconds], "exit_codes": [...]}]}.

#include <fmt/format.h>

#include <algorithm>

#include "base/error.hpp"
#include "measure/results/import.hpp"
#include "measure/results/import_formats.hpp"
#include "measure/results/json_members.hpp"

namespace headroom::imports {
namespace {

using nlohmann::json;

/// The largest physical memory of any run, if this version of hyperfine reports it.
std::optional<std::int64_t> peak_memory_of(const json& entry, const std::string& place) {
  if (!entry.contains("memory_usage_byte")) return {};
  const std::vector<std::int64_t> bytes = get_wholes(entry, "memory_usage_byte", place);
  if (bytes.empty() || std::ranges::max(bytes) == 0) return {};
  return std::ranges::max(bytes);
}

/// "exit code 3" for each nonzero code. Runs ended by a signal have none.
void tag_failures(const json& entry, Result& result) {
  if (!entry.contains("exit_codes") || !entry["exit_codes"].is_array()) return;
  for (const json& code : entry["exit_codes"]) {
    if (code == json(0)) continue;
    const std::string tag = code.is_number_integer() ? fmt::format("exit code {}", code.dump()) : "ended by a signal";
    if (std::ranges::find(result.tags, tag) == result.tags.end()) result.tags.push_back(tag);
  }
}

}  // namespace

bool is_hyperfine(const json& document) {
  if (!document.is_object() || document.contains("schema") || !document.contains("results")) return false;
  const json& results = document["results"];
  return results.is_array() && !results.empty() && results[0].is_object() && results[0].contains("command");
}

ResultFile from_hyperfine(const json& document, const std::filesystem::path& path) {
  const std::string name = path.string();
  ImportedFile imported(kHyperfine, "unknown", std::string(kUnknownMachine), name);
  std::size_t index = 0;
  for (const json& entry : document["results"]) {
    const std::string place = fmt::format("result {} of {}", index++, name);
    const std::string command = get_text(entry, "command", place);
    json request = json::object();
    if (entry.contains("parameters")) request["parameters"] = get_object(entry, "parameters", place);
    Result& result = imported.add(command, std::move(request));
    std::vector<double> times = get_numbers(entry, "times", place, kNotNegative);
    for (double& time : times) time *= 1e3;
    // Each run is a process of its own.
    result.trials = {times_of("run", std::move(times), Process::kOneEach, place)};
    if (const auto bytes = peak_memory_of(entry, place)) {
      result.memory = MemoryReport{};
      result.memory->peak_bytes = *bytes;  // of a host, which is the device
    }
    tag_failures(entry, result);
  }
  return imported.take();
}

}  // namespace headroom::imports
