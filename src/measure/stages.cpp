#include "measure/stages.hpp"

#include <algorithm>

#include "measure/floor.hpp"
#include "measure/submissions.hpp"
#include "measure/table.hpp"

namespace headroom {
namespace {

/// For each rate of the machine: floors say how many times something takes, not how many percent.
constexpr double kSecondsOfRate = 0.2;

const StageRecord* find_stage(const Result& result, const std::string& name) {
  const auto found = std::ranges::find(result.stages, name, &StageRecord::name);
  return found == result.stages.end() ? nullptr : &*found;
}

/// How often a generation runs a stage's program: prompts are read, and images coded, one at a time.
std::int64_t runs_of(const StageRun& stage, const Request& request) {
  if (stage.texts > 0) return stage.texts;
  return stage.name == "denoise" ? 1 : request.images;
}

std::string cell_of(const Result& result, const std::string& name) {
  const StageRecord* const stage = find_stage(result, name);
  if (stage == nullptr) return "-";
  const double ms = series_of(result, name).statistics.median;
  if (!stage->floor_ms || *stage->floor_ms <= 0) return format_ms(ms);
  return fmt::format("{} ({})", format_ms(ms), format_factor(ms / *stage->floor_ms));
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

std::string to_stage_table(std::span<const std::pair<std::string, const Result*>> results) {
  std::vector<std::string> names;
  for (const auto& [label, result] : results)
    for (const StageRecord& stage : result->stages)
      if (std::ranges::find(names, stage.name) == names.end()) names.push_back(stage.name);
  if (std::ranges::all_of(names, [](const std::string& name) { return name == "inputs" || name == "denoise"; }))
    return {};
  Table table;
  table.add_column("stages of a generation", Align::kLeft);
  for (const std::string& name : names) table.add_column(name);
  for (const auto& [label, result] : results) {
    std::vector<std::string> cells = {label};
    for (const std::string& name : names) cells.push_back(cell_of(*result, name));
    table.add_row(std::move(cells));
  }
  return table.render();
}

}  // namespace headroom
