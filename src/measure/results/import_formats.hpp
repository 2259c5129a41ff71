#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "measure/results/result.hpp"

/// What import.cpp and the readers of formats, a file each, share.
namespace headroom::imports {

inline constexpr std::string_view kGoogleBenchmark = "google-benchmark", kNvbench = "nvbench", kHyperfine = "hyperfine",
                                  kTrtexec = "trtexec";

/// Results as they are read, all by one program on one device.
class ImportedFile {
 public:
  /// `context` names the document in errors.
  ImportedFile(std::string_view program, std::string version, std::string device, std::string context);

  /// Adds what was measured under `name`, which comes from a stranger: it becomes one line. A name that is there
  /// already becomes "NAME (2)". `request` says what else the work is.
  Result& add(std::string_view name, nlohmann::json request = nlohmann::json::object());
  [[nodiscard]] ResultFile& file() { return file_; }
  [[nodiscard]] const std::string& context() const { return context_; }
  /// The results, checked. Throws Error where there are none with a time.
  [[nodiscard]] ResultFile take();

 private:
  Source source_;
  std::string device_;
  std::string context_;
  ResultFile file_;
};

/// How single times and processes belong together.
enum class Process : std::uint8_t { kOne, kOneEach };

/// A series of times in ms, of one process or of one each. Throws Error where there are none, or one is not within
/// kTimeMs.
[[nodiscard]] TrialSeries times_of(std::string what, std::vector<double> time_ms, Process process,
                                   std::string_view context);
/// A mean, where a file has nothing else, as one time; the result says so in a tag.
void add_mean(Result& result, std::string what, double mean_ms, std::string_view samples, std::string_view context);

/// Milliseconds in a unit "ns", "us", "ms" or "s"; throws Error for another one.
[[nodiscard]] double milliseconds_in(std::string_view unit, std::string_view context);
/// "2026-01-31T12:00:00+01:00" as results keep times, in UTC. Empty where the text is not of that form.
[[nodiscard]] std::string utc_of(std::string_view text);
/// The text under `key`, on one line; `fallback` where there is none, or an empty one.
[[nodiscard]] std::string text_or(const nlohmann::json& object, const char* key, std::string_view fallback);
/// A tag with a text of a stranger's, on one line and not too long.
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
