#include "measure/result.hpp"

#include <algorithm>
#include <cstddef>
#include <set>
#include <utility>

#include "base/error.hpp"
#include "base/file.hpp"
#include "base/hash.hpp"
#include "base/json.hpp"
#include "measure/result_json.hpp"

namespace headroom {
namespace {

using nlohmann::json;

void check_series(const TrialSeries& series, const std::string& place) {
  if (series.time_ms.empty()) fail("series '{}' in {} has no trials", series.what, place);
  if (series.process.size() != series.time_ms.size()) {
    fail("series '{}' in {} has {} times but {} process numbers", series.what, place, series.time_ms.size(),
         series.process.size());
  }
  Conditions whole = series.conditions;
  whole.keep_whole(series.time_ms.size());
  if (whole != series.conditions)
    fail("series '{}' in {} has conditions of another number of trials", series.what, place);
  if (series.statistics.n != std::ssize(series.time_ms)) {
    fail("series '{}' in {} has {} times but statistics of {}", series.what, place, series.time_ms.size(),
         series.statistics.n);
  }
}

void check_configuration(const Configuration& configuration, const std::string& place) {
  std::set<std::string> settled(configuration.applied.begin(), configuration.applied.end());
  for (const DeclinedSwitch& declined : configuration.declined) settled.insert(declined.name);
  settled.insert("auto");  // what it chose is what was applied beside the others
  for (const std::string& name : configuration.asked) {
    if (!settled.contains(name))
      fail("{} asked for '{}' but says neither that it was applied nor that it was declined", place, name);
  }
}

/// Lists of scalars on one line, small objects too, everything else indented: files stay short and their differences
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

std::string_view name_of(SubjectKind kind) { return kind == SubjectKind::kModel ? "model" : "kernel"; }

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
  }
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

const TrialSeries& series_of(const Result& result, std::string_view what) {
  const auto found = std::ranges::find(result.trials, what, &TrialSeries::what);
  if (found != result.trials.end()) return *found;
  std::vector<std::string_view> names;
  for (const TrialSeries& series : result.trials) names.push_back(series.what);
  fail("result '{}' has no trials of '{}' (it has: {})", result.id, what, fmt::join(names, ", "));
}

namespace {

void check_profile(const Result& result, const ResultFile& file, const std::string& place) {
  if (!result.profile) return;
  if (!result.plan) fail("{} has a profile but names no plan", place);
  const std::size_t nodes = file.plans.at(*result.plan).nodes.size();
  const ProfileRecord& profile = *result.profile;
  for (const std::size_t entries :
       {profile.time_ms.size(), profile.floor_ms.size(), profile.floor_of.size(), profile.runs.size()})
    if (entries != nodes)
      fail("the profile of {} has a column of {} entries for the {} nodes of its plan", place, entries, nodes);
}

}  // namespace

void check_results(const ResultFile& file) {
  std::set<std::string> ids;
  for (const Result& result : file.results) {
    const std::string place = fmt::format("result '{}'", result.id);
    if (!ids.insert(result.id).second) fail("two results have the id '{}'; ids must be unique in a file", result.id);
    if (!result.subject.request.is_object())
      fail("the request of {} is {}, not an object", place, result.subject.request.type_name());
    if (result.plan && !file.plans.contains(*result.plan))
      fail("{} names the plan '{}', which is not in the file", place, *result.plan);
    check_profile(result, file, place);
    std::set<std::string> series_names;
    for (const TrialSeries& series : result.trials) {
      check_series(series, place);
      if (!series_names.insert(series.what).second) fail("{} has two series of '{}'", place, series.what);
    }
    check_configuration(result.configuration, place);
    for (const QualityRecord& quality : result.quality) {
      if (!quality.value && !quality.note)
        fail("{} of {} has neither a value nor a note that says why", quality.metric, place);
    }
  }
}

void write_results(const std::filesystem::path& path, const ResultFile& file) {
  const json document = to_json(file);
  std::string text;
  append_layout(text, document, 0);
  write_file_atomically(path, text + "\n");
}

ResultFile read_results(const std::filesystem::path& path) { return results_from_json(read_json(path), path.string()); }

}  // namespace headroom
