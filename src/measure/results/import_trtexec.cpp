// trtexec --exportTimes: a list of queries, {"latencyMs", "computeMs", ...}. trtexec --exportProfile: a list that
// begins with {"count": iterations}, followed by the layers, {"name", "timeMs", "averageMs", "percentage"}.

#include <fmt/format.h>

#include <algorithm>

#include "base/error.hpp"
#include "measure/results/import_formats.hpp"
#include "measure/results/json_members.hpp"

namespace headroom::imports {
namespace {

using nlohmann::json;

bool is_times(const json& document) { return document[0].contains("latencyMs") && document[0].contains("computeMs"); }
bool is_profile(const json& document) {
  return document[0].contains("count") && document.size() > 1 && document[1].is_object() &&
         document[1].contains("averageMs");
}

/// The engine has no name in the file, so the file name is used.
void read_queries(const json& document, const std::filesystem::path& path, ImportedFile& imported) {
  // "inMs" and "outMs" are the older names of the copies.
  constexpr std::pair<const char*, const char*> kSeries[] = {{"latencyMs", "query"}, {"computeMs", "compute"},
                                                             {"h2dMs", "h2d"},       {"inMs", "h2d"},
                                                             {"d2hMs", "d2h"},       {"outMs", "d2h"}};
  Result& result = imported.add(path.stem().string());
  result.tags.emplace_back("may hold warm-up queries");
  for (const auto& [member, what] : kSeries) {
    if (!document[0].contains(member) || find_series(result, what) != nullptr) continue;
    std::vector<double> times;
    for (const json& query : document)
      times.push_back(
          get_number(query, member, fmt::format("query {} of {}", times.size(), imported.context()), kNotNegative));
    // Without data transfers the copies take no time.
    const bool is_needed = result.trials.size() < 2;
    if (!is_needed && !std::ranges::all_of(times, [](double ms) { return ms >= kTimeMs.low; })) continue;
    result.trials.push_back(
        times_of(what, std::move(times), Process::kOne, fmt::format("\"{}\" in {}", member, imported.context())));
  }
}

void read_layers(const json& document, ImportedFile& imported) {
  const std::int64_t count = get_whole(document[0], "count", imported.context(), 1);
  for (std::size_t i = 1; i < document.size(); ++i) {
    const std::string place = fmt::format("layer {} of {}", i - 1, imported.context());
    Result& result = imported.add(get_text(document[i], "name", place));
    const double mean_ms = get_number(document[i], "averageMs", place, kNotNegative);
    // The profile reports 0 for a layer whose work another layer does.
    if (mean_ms > 0)
      add_mean(result, "layer", mean_ms, fmt::format("{} iterations", count), place);
    else
      result.tags.emplace_back("takes no time of its own");
  }
}

}  // namespace

bool is_trtexec(const json& document) {
  return document.is_array() && !document.empty() && document[0].is_object() &&
         (is_times(document) || is_profile(document));
}

ResultFile from_trtexec(const json& document, const std::filesystem::path& path) {
  ImportedFile imported(kTrtexec, "unknown", "cuda", path.string());
  if (is_times(document))
    read_queries(document, path, imported);
  else
    read_layers(document, imported);
  return imported.take();
}

}  // namespace headroom::imports
