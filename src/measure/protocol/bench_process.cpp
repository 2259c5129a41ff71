#include "measure/protocol/bench_process.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/error.hpp"
#include "base/text/json.hpp"

namespace headroom {
namespace {

/// A program's stderr output, without its last line break.
std::string trimmed(std::string text) {
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text.empty() ? "it wrote nothing to stderr" : text;
}

/// The error sentence, if this very program ended with an error, without the usage text that may follow. It needs no
/// further explanation.
std::optional<std::string> own_sentence(const std::string& program, const std::string& stderr_text) {
  std::error_code error;
  if (!std::filesystem::equivalent(program, "/proc/self/exe", error)) return std::nullopt;
  constexpr std::string_view kPrefix = "headroom: ";
  const std::size_t at = stderr_text.starts_with(kPrefix) ? 0 : stderr_text.find(fmt::format("\n{}", kPrefix));
  if (at == std::string::npos) return std::nullopt;
  const std::string sentence = stderr_text.substr(stderr_text.find(kPrefix, at) + kPrefix.size());
  return trimmed(sentence.substr(0, sentence.find("\nusage: ")));
}

TrialSeries concatenate(const std::string& what, const std::vector<const TrialSeries*>& parts) {
  std::vector<Trials> processes;
  for (const TrialSeries* part : parts)
    processes.push_back({.wall_ms = part->time_ms,
                         .warmup = part->warmup,
                         .warmup_stable = part->warmup_stable,
                         .complete = part->complete,
                         .process = std::ssize(processes),
                         .conditions = part->conditions});
  return make_series(what, processes);
}

const Result& result_of(const ResultFile& file, const std::string& id) {
  const auto found = std::ranges::find(file.results, id, &Result::id);
  if (found == file.results.end()) fail("one process measured '{}', another did not", id);
  return *found;
}

}  // namespace

ResultFile read_bench_outcome(const std::vector<std::string>& command, const ProcessOutcome& outcome) {
  const std::string line = fmt::format("{}", fmt::join(command, " "));
  if (outcome.signal != 0) fail("{} was killed by signal {}", line, outcome.signal);
  if (outcome.code == static_cast<int>(ExitCode::kError) || outcome.code == static_cast<int>(ExitCode::kUsage))
    if (const std::optional<std::string> sentence = own_sentence(command.front(), outcome.err))
      throw Error(*sentence, static_cast<ExitCode>(outcome.code));
  if (outcome.code != 0) fail("{} ended with code {}: {}", line, outcome.code, trimmed(outcome.err));
  const std::string context = fmt::format("what {} printed", command.front());
  return results_from_json(parse_json(outcome.out, context), context);
}

ResultFile run_bench_process(const std::vector<std::string>& command) {
  return read_bench_outcome(command, run_process(command));
}

ResultFile run_processes(const BenchRun& run, int processes, const std::function<void(int done)>& on_progress) {
  std::vector<ResultFile> files;
  while (std::ssize(files) < processes) {
    files.push_back(run());
    if (on_progress) on_progress(static_cast<int>(std::ssize(files)));
  }
  return merge_processes(files);
}

ResultFile merge_processes(std::span<const ResultFile> files) {
  HR_CHECK(!files.empty());
  ResultFile merged = files.front();
  for (const ResultFile& file : files) {
    merged.plans.insert(file.plans.begin(), file.plans.end());
    for (const Result& result : file.results) (void)result_of(merged, result.id);
  }
  for (Result& result : merged.results) {
    std::vector<const Result*> runs;
    for (const ResultFile& file : files) runs.push_back(&result_of(file, result.id));
    for (TrialSeries& series : result.trials) {
      std::vector<const TrialSeries*> parts;
      for (const Result* run : runs) parts.push_back(&series_of(*run, series.what));
      series = concatenate(series.what, parts);
    }
  }
  return merged;
}

ResultFile join_benchmarks(std::span<const ResultFile> files, std::span<const std::string> names) {
  HR_CHECK(!files.empty());
  HR_CHECK_EQ(files.size(), names.size());
  ResultFile joined = files.front();
  joined.results.clear();
  for (std::size_t i = 0; i < files.size(); ++i) {
    joined.plans.insert(files[i].plans.begin(), files[i].plans.end());
    for (Result result : files[i].results) {
      result.id = fmt::format("{} {}, {}", result.subject.name, names[i], result.id);
      result.name = fmt::format("{}, {}", names[i], result.name);
      joined.results.push_back(std::move(result));
    }
  }
  return joined;
}

}  // namespace headroom
