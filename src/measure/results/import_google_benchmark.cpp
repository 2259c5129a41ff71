// Google Benchmark, --benchmark_format=json or --benchmark_out: {"context": {...}, "benchmarks": [...]}, an entry for
// each repetition and each aggregate (docs/user_guide.md, "Output Formats", of its repository).

#include <fmt/format.h>

#include <map>
#include <optional>
#include <utility>

#include "base/error.hpp"
#include "base/files/hash.hpp"
#include "measure/results/import_formats.hpp"
#include "measure/results/json_members.hpp"

namespace headroom::imports {
namespace {

using nlohmann::json;

/// One benchmark, over its repetitions.
struct Repetitions {
  std::vector<double> time_ms;
  std::optional<double> mean_ms;  ///< from the aggregate of that name
  std::int64_t count = 0;         ///< number of repetitions in it
  std::string failure;            ///< the program's reason for not measuring it
};

/// Identifies the machine of such a file. It has no CPU name, and the host name is private.
Machine machine_of(const json& context, const std::string& place) {
  Machine machine;
  machine.logical_cores = machine.allowed_cores = find_whole(context, "num_cpus", place).value_or(0);
  const std::string host = text_or(context, "host_name", "");
  machine.cpu =
      host.empty() ? "unnamed CPU" : fmt::format("unnamed CPU of host #{}", Hasher().add(host).hex().substr(0, 6));
  if (const auto mhz = find_number(context, "mhz_per_cpu", place, kNotNegative); mhz && *mhz > 0)
    machine.cpu_max_mhz = *mhz;
  return machine;
}

void read_entry(const json& entry, std::map<std::string, Repetitions>& benchmarks, std::vector<std::string>& order,
                const std::string& place) {
  // Files before version 1.5 have neither run_name nor run_type.
  const std::string name = find_text(entry, "run_name", place).value_or(get_text(entry, "name", place));
  const bool is_aggregate = find_text(entry, "run_type", place).value_or("iteration") == "aggregate";
  const std::string aggregate = is_aggregate ? get_text(entry, "aggregate_name", place) : "";
  if (is_aggregate && aggregate != "mean") return;
  const auto [found, is_new] = benchmarks.try_emplace(name);
  if (is_new) order.push_back(name);
  Repetitions& repetitions = found->second;
  for (const auto& [flag, message] :
       {std::pair("error_occurred", "error_message"), std::pair("skipped", "skip_message")})
    if (const auto value = entry.find(flag); value != entry.end() && *value != json(false) && *value != json("")) {
      repetitions.failure = text_or(entry, message, "no reason given");
      return;
    }
  const double ms =
      get_number(entry, "real_time", place, kNotNegative) * milliseconds_in(get_text(entry, "time_unit", place), place);
  if (!is_aggregate) {
    repetitions.time_ms.push_back(ms);
    return;
  }
  repetitions.mean_ms = ms;
  repetitions.count = find_whole(entry, "iterations", place).value_or(0);
}

}  // namespace

bool is_google_benchmark(const json& document) {
  return document.is_object() && document.contains("benchmarks") && document["benchmarks"].is_array() &&
         document.contains("context") && document["context"].is_object();
}

ResultFile from_google_benchmark(const json& document, const std::filesystem::path& path) {
  const std::string name = path.string(), place = "the context of " + name;
  const json& context = document["context"];
  ImportedFile imported(kGoogleBenchmark, text_or(context, "library_version", "unknown"), "cpu", name);
  imported.file().created = utc_of(text_or(context, "date", ""));
  imported.file().machine = machine_of(context, place);
  std::map<std::string, Repetitions> benchmarks;
  std::vector<std::string> order;
  std::size_t index = 0;
  for (const json& entry : document["benchmarks"]) {
    const std::string entry_place = fmt::format("benchmark {} of {}", index++, name);
    if (!entry.is_object()) fail("{} is {}, but an object was expected", entry_place, entry.type_name());
    read_entry(entry, benchmarks, order, entry_place);
  }
  for (const std::string& benchmark : order) {
    Repetitions& repetitions = benchmarks.at(benchmark);
    Result& result = imported.add(benchmark);
    const std::string result_place = fmt::format("'{}' in {}", result.name, name);
    if (!repetitions.time_ms.empty())
      result.trials = {times_of("iteration", std::move(repetitions.time_ms), Process::kOne, result_place)};
    else if (repetitions.mean_ms)
      add_mean(result, "iteration", *repetitions.mean_ms, fmt::format("{} repetitions", repetitions.count),
               result_place);
    if (!repetitions.failure.empty()) result.tags.push_back(tag_of("not measured", repetitions.failure));
  }
  return imported.take();
}

}  // namespace headroom::imports
