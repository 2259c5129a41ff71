#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "measure/results/result.hpp"
#include "measure/tables/table.hpp"
#include "pipelines/generator.hpp"

/// The stages of a pipeline's requests for result files: memory, times and floors of each.
namespace headroom {

/// The stages that ran since generate() was last called.
[[nodiscard]] std::vector<StageRecord> describe_stages(const Generator& generator);

/// The device work of a stage in one generation.
struct StageWork {
  std::string stage;
  std::shared_ptr<const Program> program;
  std::int64_t runs = 0;  ///< of the program
};
/// The work of those stages; it may outlive the generator.
[[nodiscard]] std::vector<StageWork> work_of_stages(const Generator& generator);
/// Measures the rates of the machine, and adds the floor of its work to each of the stages. Takes some seconds, and 1
/// GiB of device memory.
void add_floors(std::vector<StageRecord>& stages, std::span<const StageWork> work, Backend& backend);

/// The names of all stages in the results.
[[nodiscard]] std::vector<std::string> stages_of(std::span<const Result* const> results);

/// A table of the time of every stage with its 95% interval. Each result has a line with its label and the number of
/// timed generations. Each time is followed by its ratio to the floor: "9.5 ms (1.2x)". Nothing if no result has a
/// stage other than the loop and its inputs.
[[nodiscard]] std::optional<Table> to_stage_table(std::span<const std::pair<std::string, const Result*>> results);

/// The same as CSV-only columns for tables with a row for each result: time, interval and floor of each stage in ms,
/// and the number of timed generations.
[[nodiscard]] std::vector<Column> stage_fields(std::span<const std::string> stages);
[[nodiscard]] std::vector<Cell> stage_values(const Result& result, std::span<const std::string> stages);

}  // namespace headroom
