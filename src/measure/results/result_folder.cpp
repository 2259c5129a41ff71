#include "measure/results/result_folder.hpp"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>

#include "base/error.hpp"
#include "base/first_failure.hpp"
#include "base/text/printable.hpp"
#include "measure/results/import.hpp"

namespace headroom {
namespace {

namespace fs = std::filesystem;

// Plans of results are in a folder `plans` next to them and are not results.
bool is_result_name(const fs::path& path) {
  const bool is_packed_json = path.extension() == ".gz" && path.stem().extension() == ".json";
  return path.extension() == ".json" || (is_packed_json && path.parent_path().filename() != "plans");
}

std::vector<fs::path> list_json_files(const fs::path& folder, std::vector<std::string>& left_out) {
  std::vector<fs::path> paths;
  std::error_code error;
  fs::recursive_directory_iterator entry(folder, fs::directory_options::skip_permission_denied, error);
  for (; !error && entry != fs::recursive_directory_iterator(); entry.increment(error)) {
    std::error_code ignored;  // the file may have been removed meanwhile
    if (entry->is_regular_file(ignored) && is_result_name(entry->path())) paths.push_back(entry->path());
  }
  if (error) left_out.push_back(printable_name(fmt::format("the rest of {}: {}", folder.string(), error.message())));
  std::ranges::sort(paths);
  return paths;
}

/// The outcome of reading one file.
struct ReadOutcome {
  std::optional<NamedResults> results;
  std::string reason;  ///< why it is skipped, on one line for any file name
};

/// Reads the files on several threads; most of the time goes into recomputing the intervals of medians.
std::vector<ReadOutcome> read_files(const std::vector<fs::path>& paths, const ReadProgress& progress) {
  constexpr std::size_t kMostThreads = 8;
  std::vector<ReadOutcome> outcomes(paths.size());
  std::atomic<std::size_t> next = 0;
  std::mutex mutex;
  std::int64_t done = 0;
  FirstFailure failure;
  const auto work = [&] {
    failure.guard([&] {
      for (std::size_t i = next++; i < paths.size(); i = next++) {
        try {
          outcomes[i].results.emplace(paths[i].string(), read_measurements(paths[i]));
        } catch (const Error& error) {
          outcomes[i].reason = printable_name(error.what());
        }
        if (!progress) continue;
        const std::scoped_lock lock(mutex);
        progress(++done, std::ssize(paths));
      }
    });
  };
  const std::size_t processors = std::max<std::size_t>(std::thread::hardware_concurrency(), 1);
  std::vector<std::jthread> threads;
  try {
    for (std::size_t i = 1; i < std::min({processors, kMostThreads, paths.size()}); ++i) threads.emplace_back(work);
  } catch (const std::system_error&) {  // the threads already started do all the work
  }
  work();
  threads.clear();
  failure.rethrow();
  return outcomes;
}

}  // namespace

std::vector<NamedResults> read_result_folder(const fs::path& folder, std::vector<std::string>& left_out,
                                             const ReadProgress& progress) {
  if (!fs::is_directory(folder)) fail("{} is not a folder", folder.string());
  const std::size_t left_out_before = left_out.size();
  std::vector<NamedResults> files;
  for (ReadOutcome& outcome : read_files(list_json_files(folder, left_out), progress))
    if (outcome.results)
      files.push_back(*std::move(outcome.results));
    else
      left_out.push_back(std::move(outcome.reason));
  if (files.empty())
    fail("{} holds no result file (*.json, *.json.gz){}", folder.string(),
         left_out.size() == left_out_before
             ? ""
             : fmt::format("; of what was left out the first is: {}", left_out[left_out_before]));
  return files;
}

}  // namespace headroom
