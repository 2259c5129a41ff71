#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "base/log.hpp"
#include "base/output.hpp"
#include "base/text/format.hpp"
#include "base/text/json.hpp"
#include "base/text/name_filter.hpp"
#include "cli/commands/commands.hpp"
#include "cli/table_output.hpp"
#include "measure/gates/history.hpp"
#include "measure/protocol/subprocess.hpp"
#include "measure/results/result_folder.hpp"

namespace headroom {
namespace {

struct HistoryArguments {
  std::string folder;
  std::string repository;  // empty: the current folder, if it is a repository
  std::string filter;
  bool all = false;
  TableOutput output;
  bool quiet = false;
};

/// A revision for `git log`, without the mark of uncommitted changes.
std::string commit_of(std::string revision) {
  constexpr std::string_view kDirty = "-dirty";
  if (revision.ends_with(kDirty)) revision.resize(revision.size() - kDirty.size());
  return revision;
}

/// Histories that match the filter; without --all only those of several revisions.
std::vector<BenchmarkHistory> choose(std::vector<BenchmarkHistory> histories, const HistoryArguments& arguments,
                                     const Log& log) {
  const NameFilter filter(arguments.filter);
  std::vector<std::string> names;
  for (const BenchmarkHistory& history : histories) names.push_back(history.name);
  if (!arguments.filter.empty()) filter.check_takes_any(names, "benchmark");
  std::erase_if(histories, [&](const BenchmarkHistory& history) { return !filter.takes(history.name); });
  if (arguments.all) return histories;
  const std::size_t taken = histories.size();
  std::erase_if(histories, [](const BenchmarkHistory& history) { return history.points.size() < 2; });
  if (const std::size_t single = taken - histories.size(); single > 0)
    log.info("{} of one revision alone, which are no history: --all lists them",
             format_count(static_cast<std::int64_t>(single), "benchmark"));
  return histories;
}

/// A requested repository must be one; without a repository, no commits are printed.
void check_repository(const std::string& repository) {
  if (repository.empty()) return;
  const ProcessOutcome git = run_process({"git", "-C", repository, "rev-parse", "--git-dir"});
  if (git.code != 0)
    fail("--repository: {} is no git repository: {}", repository, git.err.substr(0, git.err.find('\n')));
}

/// Prints the commits within each step: hash, author and subject.
void print_commits(const std::vector<BenchmarkHistory>& histories, const HistoryArguments& arguments, const Log& log) {
  constexpr int kMost = 20;
  std::set<std::pair<std::string, std::string>> ranges;
  for (const BenchmarkHistory& history : histories)
    for (const ChangePoint& step : history.steps)
      ranges.emplace(commit_of(history.points[step.index - 1].revision),
                     commit_of(history.points[step.index].revision));
  const std::string repository = arguments.repository.empty() ? "." : arguments.repository;
  for (const auto& [after, by] : ranges) {
    const ProcessOutcome git =
        run_process({"git", "-C", repository, "log", fmt::format("--max-count={}", kMost), "--format=  %h %an, %as: %s",
                     "--end-of-options", fmt::format("{}..{}", after, by), "--"});
    if (git.code != 0)
      log.info("the commits from {} to {} are not in the repository {}", after, by, repository);
    else
      print_lines(fmt::format("\ncommits after {} up to {}:\n{}", after, by, git.out.empty() ? "  none\n" : git.out));
  }
}

void show_history(const HistoryArguments& arguments) {
  check_repository(arguments.repository);
  const Log log(arguments.quiet);
  std::vector<std::string> left_out;
  std::vector<ResultFile> files;
  for (NamedResults& named : read_result_folder(arguments.folder, left_out)) files.push_back(std::move(named.second));
  for (const std::string& reason : left_out) log.info("left out: {}", reason);
  const std::vector<BenchmarkHistory> histories = choose(make_histories(std::move(files)), arguments, log);
  if (arguments.output.is_json()) {
    print_out("{}\n", dump_json(to_json(histories), 2));
    return;
  }
  print_tables(to_table(histories), arguments.output);
  if (parse_table_format(arguments.output.format) == TableFormat::kText) print_commits(histories, arguments, log);
}

}  // namespace

void add_history_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "history", "find steps in times over result files of many revisions, and the commits at each step");
  const auto arguments = std::make_shared<HistoryArguments>();
  command->add_option("DIR", arguments->folder, "folder of result files, searched recursively")->required();
  command
      ->add_option("--repository", arguments->repository,
                   "git repository of the revisions; default: the current folder")
      ->type_name("DIR");
  command->add_option("--filter", arguments->filter, "only benchmarks whose names match this regular expression")
      ->type_name("REGEX");
  command->add_flag("--all", arguments->all, "also list benchmarks with only one revision");
  add_table_options(*command, arguments->output, "print the histories as JSON (schema headroom.history/1)");
  command->add_flag("-q,--quiet", arguments->quiet, "no notes");
  command->footer("Example: headroom history bench/results/nightly");
  command->callback([arguments] { show_history(*arguments); });
}

}  // namespace headroom
