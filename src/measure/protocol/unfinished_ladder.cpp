#include "measure/protocol/unfinished_ladder.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "base/text/json.hpp"
#include "measure/probes/machine.hpp"
#include "measure/results/fingerprint.hpp"
#include "measure/results/json_members.hpp"

namespace headroom {
namespace {

constexpr std::string_view kUnfinishedSchema = "headroom.unfinished_ladder/1";

std::vector<std::string> option_differences(const nlohmann::json& stored, const nlohmann::json& now) {
  std::vector<std::string> differences;
  for (const auto& [name, value] : now.items())
    if (!stored.contains(name) || stored.at(name) != value)
      differences.push_back(fmt::format("{}: {} against {}", name, value.dump(),
                                        stored.contains(name) ? stored.at(name).dump() : "none"));
  return differences;
}

}  // namespace

UnfinishedLadder::UnfinishedLadder(std::filesystem::path path, nlohmann::json options)
    : path_(std::move(path)), options_(std::move(options)) {}

std::int64_t UnfinishedLadder::restore(Ladder& ladder) const {
  if (!std::filesystem::exists(path_)) return 0;
  const nlohmann::json document = read_json(path_);
  const std::string place = path_.string();
  if (const std::string schema = get_string(document, "schema", place); schema != kUnfinishedSchema)
    fail("{} has schema '{}', expected '{}'", place, schema, kUnfinishedSchema);
  check_members(document, {"schema", "options", "results"}, place);
  ResultFile stored = results_from_json(get_object(document, "results", place), place);
  std::vector<std::string> differences = option_differences(get_object(document, "options", place), options_);
  for (std::string& difference : origin_differences(stored.machine, describe_machine()))
    differences.push_back(std::move(difference));
  if (!differences.empty())
    fail("{} holds another ladder that was not finished; remove it to begin anew: {}", place,
         fmt::join(differences, "; "));
  std::int64_t visits = 0;
  for (Result& result : stored.results) {
    const auto rung = std::ranges::find(ladder.rungs, result.id, &Rung::name);
    if (rung == ladder.rungs.end()) fail("{} holds '{}', which is no rung of this ladder", place, result.id);
    if (!result.trials.empty()) visits += std::ssize(split_visits(timed_series(result)));
    rung->result = std::move(result);
  }
  ladder.plans = std::move(stored.plans);
  return visits;
}

void UnfinishedLadder::save(const Ladder& ladder) const {
  write_json(path_, {{"schema", kUnfinishedSchema}, {"options", options_}, {"results", to_json(to_results(ladder))}});
}

void UnfinishedLadder::finish() const {
  std::error_code none;  // the file may not exist
  std::filesystem::remove(path_, none);
}

std::int64_t next_process(const Ladder& ladder) {
  std::int64_t next = 0;
  for (const Rung& rung : ladder.rungs)
    for (const TrialSeries& series : rung.result.trials) next = std::max(next, std::ranges::max(series.process) + 1);
  return next;
}

}  // namespace headroom
