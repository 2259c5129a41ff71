#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "measure/results/result.hpp"

/// Declarations shared by import.cpp and the readers, one file per format.
namespace headroom::imports {

inline constexpr std::string_view kGoogleBenchmark = "google-benchmark", kNvbench = "nvbench", kHyperfine = "hyperfine",
                                  kTrtexec = "trtexec";

/// Collects results while they are read; all are from one program on one device.
class ImportedFile {
 public:
  /// `context` names the document in errors.
  ImportedFile(std::string_view program, std::string version, std::string device, std::string context);

  /// Adds a benchmark called `name`. The name is untrusted input: it becomes one line, and a duplicate becomes "NAME
  /// (2)". `request` holds the other properties of the work.
  Result& add(std::string_view name, nlohmann::json request = nlohmann::json::object());
  [[nodiscard]] ResultFile& file() { return file_; }
  [[nodiscard]] const std::string& context() const { return context_; }
  /// The results, checked. Throws Error if none has a time.
  [[nodiscard]] ResultFile take();

 private:
  Source source_;
  std::string device_;
  std::string context_;
  ResultFile file_;
};

/// Whether the times of a series are all from one process, or each from a process of its own.
enum class Process : std::uint8_t { kOne, kOneEach };

/// A series of times in ms, from one process or from one process each. Throws Error if there are none, or one is
/// outside kTimeMs.
[[nodiscard]] TrialSeries times_of(std::string what, std::vector<double> time_ms, Process process,
                                   std::string_view context);
/// Adds a mean as a single time, for files that have nothing else; a tag of the result says so.
void add_mean(Result& result, std::string what, double mean_ms, std::string_view samples, std::string_view context);

/// The milliseconds in a unit "ns", "us", "ms" or "s"; throws Error for another unit.
[[nodiscard]] double milliseconds_in(std::string_view unit, std::string_view context);
/// Converts "2026-01-31T12:00:00+01:00" to UTC in the form that results use. Empty if the text has another form.
[[nodiscard]] std::string utc_of(std::string_view text);
/// The text under `key`, on one line; `fallback` if it is missing or empty.
[[nodiscard]] std::string text_or(const nlohmann::json& object, const char* key, std::string_view fallback);
/// A tag with a text of untrusted origin, reduced to one line and limited in length.
[[nodiscard]] std::string tag_of(std::string_view words, std::string_view text);

[[nodiscard]] bool is_google_benchmark(const nlohmann::json& json);
[[nodiscard]] ResultFile from_google_benchmark(const nlohmann::json& json, const std::filesystem::path& path);
[[nodiscard]] bool is_nvbench(const nlohmann::json& json);
[[nodiscard]] ResultFile from_nvbench(const nlohmann::json& json, const std::filesystem::path& path);
[[nodiscard]] bool is_hyperfine(const nlohmann::json& json);
[[nodiscard]] ResultFile from_hyperfine(const nlohmann::json& json, const std::filesystem::path& path);
[[nodiscard]] bool is_trtexec(const nlohmann::json& json);
[[nodiscard]] ResultFile from_trtexec(const nlohmann::json& json, const std::filesystem::path& path);

}  // namespace headroom::imports
