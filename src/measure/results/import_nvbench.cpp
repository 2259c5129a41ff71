// nvbench --json or --jsonbin: {"devices": [...], "benchmarks": [{"name", "states": [{"device", "axis_values",
// "summaries": [{"tag", "data": [{"name", "type", "value"}]}], "is_skipped"}]}]}. Numbers in summaries are texts and
// times are in seconds. --jsonbin writes the times of samples as 32-bit floats into separate files next to the JSON.

#include <fmt/format.h>

#include <bit>
#include <charconv>
#include <cmath>
#include <system_error>

#include "base/error.hpp"
#include "base/files/file.hpp"
#include "base/text/json.hpp"
#include "base/text/printable.hpp"
#include "measure/results/import.hpp"
#include "measure/results/import_formats.hpp"
#include "measure/results/json_members.hpp"

namespace headroom::imports {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

/// nvbench's timers in order of preference; the first that a state has is used.
struct Timer {
  std::string_view what, mean, size, samples;
};
constexpr Timer kTimers[] = {
    {"launch", "nv/cold/time/gpu/mean", "nv/cold/sample_size", "nv/json/bin:nv/cold/sample_times"},
    {"call", "nv/cpu_only/time/cpu/mean", "nv/cpu_only/sample_size", "nv/json/bin:nv/cpu_only/sample_times"},
    {"launch", "nv/batch/time/gpu/mean", "nv/batch/sample_size", ""}};

/// The value `name` of the summary with that tag; null if there is none.
const json* find_value(const json& summaries, std::string_view tag, std::string_view name) {
  for (const json& summary : summaries) {
    if (!summary.is_object() || summary.value("tag", json()) != json(tag) || !summary.contains("data") ||
        !summary["data"].is_array())
      continue;
    for (const json& datum : summary["data"])
      if (datum.is_object() && datum.value("name", json()) == json(name) && datum.contains("value"))
        return &datum["value"];
  }
  return nullptr;
}

double number_in(const json& value, std::string_view tag, const std::string& place) {
  double number = 0;
  if (value.is_number()) return value.get<double>();
  if (value.is_string()) {
    const std::string& text = value.get_ref<const std::string&>();
    const auto parsed = std::from_chars(text.data(), text.data() + text.size(), number);
    if (parsed.ec == std::errc{} && parsed.ptr == text.data() + text.size() && std::isfinite(number)) return number;
  }
  fail("\"{}\" in {} is {}, but a finite number as a text was expected", tag, place,
       shortened(printable_name(value.dump(-1, ' ', true, json::error_handler_t::replace)), 60));
}

/// The times of samples, in ms; none if the file is missing. Only the last two parts of the path are used: nvbench
/// writes it relative to its own working directory, and files in other folders must not be read.
std::vector<double> samples_of(const json& filename, std::size_t count, const fs::path& path,
                               const std::string& place) {
  if (!filename.is_string()) fail("the file of samples of {} has no name", place);
  const fs::path stated = filename.get<std::string>();
  std::error_code error;
  const fs::path file = path.parent_path() / stated.parent_path().filename() / stated.filename();
  if (stated.filename() == ".." || stated.parent_path().filename() == ".." || !fs::is_regular_file(file, error))
    return {};
  const std::string bytes = read_file(file);
  if (bytes.size() != count * sizeof(float))
    fail("{} has {} bytes, but {} samples of 4 bytes were expected, as {} says", file.string(), bytes.size(), count,
         place);
  std::vector<double> times(count);
  for (std::size_t i = 0; i < count; ++i) {
    std::uint32_t bits = 0;
    for (std::size_t k = 0; k < sizeof(bits); ++k)
      bits |= std::uint32_t{static_cast<unsigned char>(bytes[i * sizeof(bits) + k])} << (8 * k);
    times[i] = static_cast<double>(std::bit_cast<float>(bits)) * 1e3;
  }
  return times;
}

/// Fills in the times of the first timer that the state has, if it has one.
void read_times(const json& summaries, Result& result, const fs::path& path, const std::string& place) {
  for (const Timer& timer : kTimers) {
    const json* const mean = find_value(summaries, timer.mean, "value");
    if (mean == nullptr) continue;
    if (const json* const filename = find_value(summaries, timer.samples, "filename")) {
      const json* const size = find_value(summaries, timer.samples, "size");
      const double count = size == nullptr ? -1 : number_in(*size, timer.samples, place);
      constexpr double kMostSamples = 1e8;
      if (!(count >= 1 && count <= kMostSamples && count == std::floor(count)))
        fail("\"{}\" in {} has no size that could be a number of samples", timer.samples, place);
      if (auto times = samples_of(*filename, static_cast<std::size_t>(count), path, place); !times.empty()) {
        result.trials = {times_of(std::string(timer.what), std::move(times), Process::kOne, place)};
        return;
      }
    }
    const json* const count = find_value(summaries, timer.size, "value");
    add_mean(result, std::string(timer.what), number_in(*mean, timer.mean, place) * 1e3,
             count == nullptr ? "unknown samples" : fmt::format("{:.0f} samples", number_in(*count, timer.size, place)),
             place);
    return;
  }
}

/// "copy BlockSize=256 Bytes=2^20": the state's axis values, without the device.
std::string state_name(const std::string& benchmark, const json& axis_values, const std::string& place) {
  std::string name = benchmark;
  for (const json& axis : axis_values) {
    const json& value = get(axis, "value", place);
    name += fmt::format(" {}={}", get_text(axis, "name", place),
                        value.is_string() ? value.get<std::string>() : value.dump());
  }
  return name;
}

class NvbenchReader {
 public:
  NvbenchReader(const json& document, const fs::path& path)
      : document_(document), path_(path), imported_(kNvbench, version(), "cuda", path.string()) {}

  ResultFile read() {
    if (document_.contains("devices") && document_["devices"].is_array())
      for (const json& device : document_["devices"])
        imported_.file().machine.gpus.push_back(
            {.name = printable_name(get_text(device, "name", "a device of " + path_.string())), .driver = {}});
    std::size_t index = 0;
    for (const json& benchmark : document_["benchmarks"]) {
      const std::string place = fmt::format("benchmark {} of {}", index++, path_.string());
      const std::string name = get_text(benchmark, "name", place);
      if (!benchmark.contains("states") || benchmark["states"].is_null()) continue;  // null if none was requested
      for (const json& state : get_array(benchmark, "states", place)) read_state(name, state);
    }
    return imported_.take();
  }

 private:
  [[nodiscard]] std::string version() const {
    const json::json_pointer at("/meta/version/nvbench/string");
    return document_.contains(at) && document_[at].is_string() ? printable_name(document_[at].get<std::string>())
                                                               : "unknown";
  }

  void read_state(const std::string& benchmark, const json& state) {
    const std::string place =
        fmt::format("a state of '{}' in {}", shortened(printable_name(benchmark), 100), path_.string());
    if (!state.is_object()) fail("{} is {}, but an object was expected", place, state.type_name());
    static const json kNone = json::array();
    const auto list = [&](const char* key) -> const json& {
      return !state.contains(key) || state[key].is_null() ? kNone : get_array(state, key, place);
    };
    Result& result = imported_.add(state_name(benchmark, list("axis_values"), place));
    if (const auto id = find_device(state); !id.empty()) result.configuration.gpu = UsedGpu{.name = id, .uuid = ""};
    if (state.value("is_skipped", json()) == json(true))
      result.tags.push_back(tag_of("not measured", text_or(state, "skip_reason", "no reason given")));
    else
      read_times(list("summaries"), result, path_, fmt::format("'{}' in {}", result.name, path_.string()));
  }

  /// Name of the device that a state ran on; empty if the file does not say.
  [[nodiscard]] std::string find_device(const json& state) const {
    if (!document_.contains("devices") || !document_["devices"].is_array() || !state.contains("device")) return {};
    for (const json& device : document_["devices"])
      if (device.is_object() && device.value("id", json()) == state["device"])
        return printable_name(get_text(device, "name", "a device of " + path_.string()));
    return {};
  }

  const json& document_;
  const fs::path& path_;
  ImportedFile imported_;
};

}  // namespace

bool is_nvbench(const json& document) {
  if (!document.is_object() || !document.contains("benchmarks") || !document["benchmarks"].is_array()) return false;
  const json::json_pointer version("/meta/version/nvbench");
  if (document.contains(version)) return true;
  const json& benchmarks = document["benchmarks"];
  return document.contains("devices") && !benchmarks.empty() && benchmarks[0].is_object() &&
         benchmarks[0].contains("states");
}

ResultFile from_nvbench(const json& document, const fs::path& path) { return NvbenchReader(document, path).read(); }

}  // namespace headroom::imports
