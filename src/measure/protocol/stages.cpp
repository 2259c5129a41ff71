#include "measure/protocol/stages.hpp"

#include <algorithm>

#include "measure/probes/floor.hpp"
#include "measure/protocol/submissions.hpp"
#include "measure/tables/table.hpp"

namespace headroom {
namespace {

/// For each rate of the machine; low precision suffices, since floors are used as ratios such as 1.2x, not as
/// percentages.
constexpr double kSecondsOfRate = 0.2;

const StageRecord* find_stage(const Result& result, const std::string& name) {
  const auto found = std::ranges::find(result.stages, name, &StageRecord::name);
  return found == result.stages.end() ? nullptr : &*found;
}

/// How often one generation runs a stage's program: prompts and images are processed one at a time.
std::int64_t runs_of(const StageRun& stage, const Request& request) {
  if (stage.texts > 0) return stage.texts;
  return stage.name == kSetupStage || stage.name == kDenoiseStage ? 1 : request.images;
}

/// Null if the result has no such stage, or no times for it.
const Summary* find_times_of_stage(const Result& result, const std::string& name) {
  if (find_stage(result, name) == nullptr) return nullptr;
  const TrialSeries* const series = find_series(result, name);
  return series == nullptr ? nullptr : &series->statistics;
}

std::string time_of_stage(const Result& result, const std::string& name) {
  const Summary* const times = find_times_of_stage(result, name);
  if (times == nullptr) return "-";
  const std::optional<double>& floor_ms = find_stage(result, name)->floor_ms;
  if (!floor_ms || *floor_ms <= 0) return format_ms(times->median);
  return fmt::format("{} ({})", format_ms(times->median), over_floor_cell(times->median / *floor_ms).text);
}

/// The number of generations whose stages were timed.
Cell generations_of(const Result& result, std::span<const std::string> stages) {
  for (const std::string& name : stages)
    if (const Summary* const times = find_times_of_stage(result, name))
      return count_cell(static_cast<std::int64_t>(times->n));
  return no_value();
}

/// In descending order of each stage's longest time in any result.
std::vector<std::string> by_time(std::vector<std::string> stages,
                                 std::span<const std::pair<std::string, const Result*>> results) {
  const auto most_ms = [&](const std::string& name) {
    double most = 0;
    for (const auto& [label, result] : results)
      if (const Summary* const times = find_times_of_stage(*result, name)) most = std::max(most, times->median);
    return most;
  };
  std::ranges::stable_sort(stages, std::ranges::greater(), most_ms);
  return stages;
}

}  // namespace

std::vector<StageRecord> describe_stages(const Generator& generator) {
  const std::vector<const DeviceStage*> on_device = generator.device_stages();
  std::vector<StageRecord> stages;
  for (const StageRun& run : generator.stages()) {
    StageRecord& stage = stages.emplace_back();
    stage.name = run.name;
    const auto found = std::ranges::find(on_device, run.name, &DeviceStage::name);
    if (found == on_device.end()) continue;
    stage.memory_bytes = static_cast<std::int64_t>((*found)->session->activation_peak_bytes());
    std::size_t weights = 0;
    for (const WeightUse& use : (*found)->compiled.program->weights) weights += use.bytes;
    stage.weights_bytes = static_cast<std::int64_t>(weights);
  }
  return stages;
}

std::vector<StageWork> work_of_stages(const Generator& generator) {
  std::vector<StageWork> work;
  for (const DeviceStage* const stage : generator.device_stages()) {
    const auto run = std::ranges::find(generator.stages(), stage->name, &StageRun::name);
    if (run != generator.stages().end())
      work.push_back({stage->name, stage->compiled.program, runs_of(*run, generator.request())});
  }
  return work;
}

void add_floors(std::vector<StageRecord>& stages, std::span<const StageWork> work, Backend& backend) {
  MachineRates rates(backend, short_protocol(backend, kSecondsOfRate));
  for (const StageWork& one : work)
    for (StageRecord& stage : stages)
      if (stage.name == one.stage) stage.floor_ms = static_cast<double>(one.runs) * floor_ms(*one.program, rates);
}

std::vector<std::string> stages_of(std::span<const Result* const> results) {
  std::vector<std::string> names;
  for (const Result* const result : results)
    for (const StageRecord& stage : result->stages)
      if (std::ranges::find(names, stage.name) == names.end()) names.push_back(stage.name);
  return names;
}

std::optional<Table> to_stage_table(std::span<const std::pair<std::string, const Result*>> results) {
  std::vector<const Result*> of;
  for (const auto& [label, result] : results) of.push_back(result);
  const std::vector<std::string> names = stages_of(of);
  if (std::ranges::all_of(names, [](const std::string& name) { return name == "inputs" || name == kDenoiseStage; }))
    return std::nullopt;
  // A narrow terminal first drops the fastest stage, with its interval before its time.
  const std::vector<std::string> longest_first = by_time(names, results);
  Table table;
  table.add_column(Column{.header = "stages of a generation", .align = Align::kLeft, .fields = {"rung"}, .least = 18});
  table.add_column("n");
  for (const std::string& name : names) {
    const auto rank = static_cast<int>(std::ranges::find(longest_first, name) - longest_first.begin());
    table.add_column(Column{.header = name, .priority = 2 * rank, .fields = {name + "_ms"}});
    table.add_column(Column{.header = "95% interval",
                            .priority = rank == 0 ? 0 : 2 * rank + 1,
                            .fields = {name + "_low_ms", name + "_high_ms"}});
  }
  for (const auto& [label, result] : results) {
    std::vector<Cell> cells = {label, generations_of(*result, names)};
    for (const std::string& name : names) {
      const Summary* const times = find_times_of_stage(*result, name);
      cells.push_back(times == nullptr ? no_value() : number_cell(times->median, time_of_stage(*result, name)));
      cells.push_back(interval_ms_cell(times == nullptr ? std::nullopt : times->median_interval));
    }
    table.add_row(std::move(cells));
  }
  return table;
}

std::vector<Column> stage_fields(std::span<const std::string> stages) {
  std::vector<Column> columns;
  if (!stages.empty()) columns.push_back({.header = "generations", .shown = Shown::kOnlyInCsv});
  for (const std::string& name : stages)
    columns.push_back({.header = name,
                       .fields = {name + "_ms", name + "_low_ms", name + "_high_ms", name + "_floor_ms"},
                       .shown = Shown::kOnlyInCsv});
  return columns;
}

std::vector<Cell> stage_values(const Result& result, std::span<const std::string> stages) {
  std::vector<Cell> cells;
  if (!stages.empty()) cells.push_back(generations_of(result, stages));
  for (const std::string& name : stages) {
    const Summary* const times = find_times_of_stage(result, name);
    if (times == nullptr) {
      cells.push_back(no_value());
      continue;
    }
    const auto& interval = times->median_interval;
    const std::optional<double>& floor_ms = find_stage(result, name)->floor_ms;
    cells.push_back({"",
                     {exact_number(times->median), interval ? exact_number(interval->low) : "",
                      interval ? exact_number(interval->high) : "", floor_ms ? exact_number(*floor_ms) : ""}});
  }
  return cells;
}

}  // namespace headroom
