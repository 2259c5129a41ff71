#include "measure/bench_process.hpp"

#include <fcntl.h>
#include <fmt/ranges.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <utility>

#include "base/error.hpp"
#include "base/json.hpp"

extern char** environ;

namespace headroom {
namespace {

using CFile = std::unique_ptr<FILE, int (*)(FILE*)>;

CFile temporary_file() {
  CFile file(std::tmpfile(), std::fclose);
  if (!file) fail("cannot make a temporary file: {}", std::strerror(errno));
  return file;
}

std::string read_all(FILE* file) {
  std::rewind(file);
  std::string text;
  std::array<char, 65536> buffer{};
  while (const std::size_t n = std::fread(buffer.data(), 1, buffer.size(), file)) text.append(buffer.data(), n);
  return text;
}

/// Starts the command with its output in the two files, and waits for it.
int spawn_and_wait(const std::vector<std::string>& command, FILE* out, FILE* err) {
  std::vector<char*> arguments;
  for (const std::string& argument : command) arguments.push_back(const_cast<char*>(argument.c_str()));
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, fileno(out), STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, fileno(err), STDERR_FILENO);
  pid_t child = 0;
  const int error = posix_spawnp(&child, arguments[0], &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) fail("cannot run {}: {}", command.front(), std::strerror(error));
  int status = 0;
  while (waitpid(child, &status, 0) < 0)
    if (errno != EINTR) fail("lost {}: {}", command.front(), std::strerror(errno));
  return status;
}

/// The last line of what a program wrote to stderr: its error.
std::string last_line(std::string text) {
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text.empty() ? "it wrote nothing to stderr" : text;
}

TrialSeries concatenate(const std::string& what, const std::vector<const TrialSeries*>& parts) {
  std::vector<Trials> processes;
  for (const TrialSeries* part : parts)
    processes.push_back({.wall_ms = part->time_ms,
                         .warmup = part->warmup,
                         .warmup_stable = part->warmup_stable,
                         .complete = part->complete,
                         .process = std::ssize(processes)});
  return make_series(what, processes);
}

const Result& result_of(const ResultFile& file, const std::string& id) {
  const auto found = std::ranges::find(file.results, id, &Result::id);
  if (found == file.results.end()) fail("one process measured '{}', another did not", id);
  return *found;
}

}  // namespace

ResultFile run_bench_process(const std::vector<std::string>& command) {
  const CFile out = temporary_file(), err = temporary_file();
  const int status = spawn_and_wait(command, out.get(), err.get());
  const std::string line = fmt::format("{}", fmt::join(command, " "));
  if (WIFSIGNALED(status)) fail("{} was killed by signal {}", line, WTERMSIG(status));
  if (WEXITSTATUS(status) != 0)
    fail("{} ended with code {}: {}", line, WEXITSTATUS(status), last_line(read_all(err.get())));
  const std::string context = fmt::format("what {} printed", command.front());
  return results_from_json(parse_json(read_all(out.get()), context), context);
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
