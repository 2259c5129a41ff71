#include "measure/results/result.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "base/error.hpp"
#include "base/files/file.hpp"
#include "base/files/gzip.hpp"
#include "base/files/hash.hpp"
#include "base/text/json.hpp"
#include "measure/results/result_json.hpp"

namespace headroom {
namespace {

using nlohmann::json;

/// Writes lists of scalars and small objects on one line, everything else indented: files stay short and their diffs
/// readable.
void append_layout(std::string& out, const json& value, std::size_t indent) {
  constexpr std::size_t kLineLimit = 110;
  const bool is_flat =
      std::ranges::none_of(value, [](const json& member) { return member.is_structured() && !member.empty(); });
  if (!value.is_structured() || is_flat) {
    const std::string line = value.dump();
    if (!value.is_object() || indent + line.size() <= kLineLimit) {
      out += line;
      return;
    }
  }
  const std::string inner(indent + 1, ' ');
  out += value.is_object() ? "{" : "[";
  bool is_first = true;
  for (const auto& [key, member] : value.items()) {
    out += is_first ? "\n" : ",\n";
    is_first = false;
    out += inner;
    if (value.is_object()) out += json(key).dump() + ": ";
    append_layout(out, member, indent + 1);
  }
  out += "\n" + std::string(indent, ' ') + (value.is_object() ? "}" : "]");
}

}  // namespace

std::string_view name_of(SubjectKind kind) {
  if (kind == SubjectKind::kStream) return "stream";
  return kind == SubjectKind::kModel ? "model" : "kernel";
}

std::string work_hash(const Subject& subject) {
  return Hasher()
      .add("headroom.work/1")
      .add(name_of(subject.kind))
      .add(subject.name)
      .add(dump_json(subject.request))
      .hex();
}

TrialSeries make_series(std::string what, std::span<const Trials> processes) {
  if (processes.empty()) fail("there are no trials of '{}'", what);
  TrialSeries series{
      .what = std::move(what), .process = {}, .time_ms = {}, .warmup = processes.front().warmup, .statistics = {}};
  for (const Trials& trials : processes) {
    series.process.insert(series.process.end(), trials.wall_ms.size(), trials.process);
    series.time_ms.insert(series.time_ms.end(), trials.wall_ms.begin(), trials.wall_ms.end());
    series.warmup = std::min(series.warmup, trials.warmup);
    series.warmup_stable = series.warmup_stable && trials.warmup_stable;
    series.complete = series.complete && trials.complete;
    series.conditions.append(trials.conditions);
    if (trials.round) series.round.insert(series.round.end(), trials.wall_ms.size(), *trials.round);
  }
  if (series.round.size() != series.time_ms.size()) series.round.clear();
  series.statistics = summarize(series.time_ms);
  series.conditions.keep_whole(series.time_ms.size());
  return series;
}

TrialSeries make_series(std::string what, const Trials& trials) {
  return make_series(std::move(what), std::span(&trials, 1));
}

QualityRecord psnr_record(std::string against, std::optional<double> psnr_db) {
  QualityRecord record{
      .metric = "psnr_db", .against = std::move(against), .value = psnr_db, .interval = {}, .note = {}};
  if (!psnr_db) record.note = "identical";
  return record;
}

bool is_out_of_memory(const Result& result) {
  return result.trials.empty() && std::ranges::find(result.tags, kOutOfMemoryTag) != result.tags.end();
}

const TrialSeries* find_series(const Result& result, std::string_view what) {
  const auto found = std::ranges::find(result.trials, what, &TrialSeries::what);
  return found == result.trials.end() ? nullptr : &*found;
}

const TrialSeries& series_of(const Result& result, std::string_view what) {
  if (const TrialSeries* const found = find_series(result, what)) return *found;
  std::vector<std::string_view> names;
  for (const TrialSeries& series : result.trials) names.push_back(series.what);
  fail("result '{}' has no trials of '{}' (it has: {})", result.id, what, fmt::join(names, ", "));
}

void write_results(const std::filesystem::path& path, const ResultFile& file) {
  const json document = to_json(file);
  std::string text;
  append_layout(text, document, 0);
  write_file_atomically(path, text + "\n");
}

nlohmann::json read_result_json(const std::filesystem::path& path) {
  constexpr ReadLimits kLimits{.most_bytes = std::uint64_t{256} << 20, .takes_pipes = true};
  std::string text = read_file(path, kLimits);
  if (is_gzip(text)) text = gunzip(text, kLimits.most_bytes, path.string());
  return parse_json(text, path.string());
}

ResultFile read_results(const std::filesystem::path& path) {
  return results_from_json(read_result_json(path), path.string(), path.parent_path());
}

}  // namespace headroom
