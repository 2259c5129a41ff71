#include "measure/results/import.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <numeric>
#include <utility>

#include "base/error.hpp"
#include "base/files/file.hpp"
#include "base/text/json.hpp"
#include "base/text/printable.hpp"
#include "measure/results/import_formats.hpp"
#include "measure/results/json_members.hpp"
#include "measure/results/result_json.hpp"

namespace headroom {
namespace {

struct ImportFormat {
  std::string_view program;
  bool (*is_it)(const nlohmann::json& json);
  ResultFile (*read)(const nlohmann::json& json, const std::filesystem::path& path);
};

constexpr std::array kImportFormats = {
    ImportFormat{imports::kGoogleBenchmark, imports::is_google_benchmark, imports::from_google_benchmark},
    ImportFormat{imports::kNvbench, imports::is_nvbench, imports::from_nvbench},
    ImportFormat{imports::kHyperfine, imports::is_hyperfine, imports::from_hyperfine},
    ImportFormat{imports::kTrtexec, imports::is_trtexec, imports::from_trtexec}};

constexpr std::size_t kMostNameBytes = 300;

/// The number in `digits` digits at `at`; -1 if there is none.
int digits_at(std::string_view text, std::size_t at, std::size_t digits) {
  if (text.size() < at + digits) return -1;
  int value = 0;
  for (const char c : text.substr(at, digits)) {
    if (c < '0' || c > '9') return -1;
    value = 10 * value + (c - '0');
  }
  return value;
}

}  // namespace

namespace imports {

ImportedFile::ImportedFile(std::string_view program, std::string version, std::string device, std::string context)
    : source_{.name = std::string(program), .version = std::move(version)},
      device_(std::move(device)),
      context_(std::move(context)),
      file_{.created = "", .machine = {}, .plans = {}, .results = {}} {}

Result& ImportedFile::add(std::string_view name, nlohmann::json request) {
  const std::string first = shortened(printable_name(name), kMostNameBytes);
  std::string unique = first;
  const auto is_taken = [&](const Result& result) { return result.name == unique; };
  for (int n = 2; std::ranges::any_of(file_.results, is_taken); ++n) unique = fmt::format("{} ({})", first, n);
  Result& result = file_.results.emplace_back();
  result.id = result.name = unique;
  result.subject = {.kind = SubjectKind::kKernel, .name = unique, .request = std::move(request)};
  result.source = source_;
  result.configuration.device = device_;
  return result;
}

ResultFile ImportedFile::take() {
  const auto is_timed = [](const Result& result) { return !result.trials.empty(); };
  if (std::ranges::none_of(file_.results, is_timed)) fail("{} by {} holds no measured time", context_, source_.name);
  try {
    check_results(file_);
  } catch (const Error& error) {
    fail("{} is inconsistent: {}", context_, error.what());
  }
  return std::move(file_);
}

TrialSeries times_of(std::string what, std::vector<double> time_ms, Process process, std::string_view context) {
  if (time_ms.empty()) fail("{} has no times", context);
  for (const double ms : time_ms)
    if (!(ms >= kTimeMs.low && ms <= kTimeMs.high))
      fail("{} has a time of {} ms, but {} was expected", context, ms, kTimeMs.words);
  TrialSeries series{.what = std::move(what),
                     .process = std::vector<std::int64_t>(time_ms.size(), 0),
                     .time_ms = std::move(time_ms),
                     .warmup = 0,
                     .warmup_stable = true,
                     .complete = true,
                     .statistics = {}};
  if (process == Process::kOneEach) std::iota(series.process.begin(), series.process.end(), 0);
  series.statistics = summarize(series.time_ms);
  return series;
}

void add_mean(Result& result, std::string what, double mean_ms, std::string_view samples, std::string_view context) {
  result.trials.push_back(times_of(std::move(what), {mean_ms}, Process::kOne, context));
  result.tags.push_back(fmt::format("mean of {}", samples));
}

double milliseconds_in(std::string_view unit, std::string_view context) {
  if (unit == "ns") return 1e-6;
  if (unit == "us") return 1e-3;
  if (unit == "ms") return 1;
  if (unit == "s") return 1e3;
  fail("{} has times in '{}', but ns, us, ms or s was expected", context, shortened(printable_name(unit), 60));
}

std::string utc_of(std::string_view text) {
  constexpr std::size_t kZone = 19;  // after "2026-01-31T12:00:00"
  std::array<int, 6> parts = {};     // year, month, day, hour, minute, second
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const std::size_t at = i == 0 ? 0 : 3 * i + 2;
    parts[i] = digits_at(text, at, i == 0 ? 4 : 2);
    if (parts[i] < 0) return {};
  }
  if (text.size() <= kZone || text[4] != '-' || text[7] != '-' || text[10] != 'T' || text[13] != ':' || text[16] != ':')
    return {};
  const std::string_view zone = text.substr(kZone);
  int offset = 0;  // minutes east of UTC
  if (zone != "Z") {
    const int hours = digits_at(zone, 1, 2), minutes = digits_at(zone, 4, 2);
    if (zone.size() != 6 || (zone[0] != '+' && zone[0] != '-') || zone[3] != ':' || hours < 0 || minutes < 0) return {};
    offset = (zone[0] == '-' ? -1 : 1) * (60 * hours + minutes);
  }
  const std::chrono::year_month_day day{std::chrono::year(parts[0]), std::chrono::month(unsigned(parts[1])),
                                        std::chrono::day(unsigned(parts[2]))};
  if (!day.ok() || parts[3] > 23 || parts[4] > 59 || parts[5] > 60) return {};
  const auto moment = std::chrono::sys_days(day) + std::chrono::hours(parts[3]) +
                      std::chrono::minutes(parts[4] - offset) + std::chrono::seconds(parts[5]);
  const auto midnight = std::chrono::floor<std::chrono::days>(moment);
  const std::chrono::year_month_day in_utc(midnight);
  const std::chrono::hh_mm_ss time(moment - midnight);
  std::string utc =
      fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}Z", int(in_utc.year()), unsigned(in_utc.month()),
                  unsigned(in_utc.day()), time.hours().count(), time.minutes().count(), time.seconds().count());
  return is_date_of_results(utc) ? utc : std::string();
}

std::string text_or(const nlohmann::json& object, const char* key, std::string_view fallback) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_string() || found->get_ref<const std::string&>().empty())
    return std::string(fallback);
  return printable_name(found->get_ref<const std::string&>());
}

std::string tag_of(std::string_view words, std::string_view text) {
  return fmt::format("{}: {}", words, shortened(printable_name(text), kMostNameBytes));
}

}  // namespace imports

std::optional<ResultFile> import_results(const nlohmann::json& json, const std::filesystem::path& path) {
  const auto* const found =
      std::ranges::find_if(kImportFormats, [&](const ImportFormat& format) { return format.is_it(json); });
  if (found == kImportFormats.end()) return {};
  return found->read(json, path);
}

ResultFile read_measurements(const std::filesystem::path& path) {
  const nlohmann::json json = read_result_json(path);
  if (std::optional<ResultFile> imported = import_results(json, path)) return *std::move(imported);
  return results_from_json(json, path.string(), path.parent_path());
}

bool is_imported(const Result& result) {
  return std::ranges::find(kImportFormats, result.source.name, &ImportFormat::program) != kImportFormats.end();
}

}  // namespace headroom
