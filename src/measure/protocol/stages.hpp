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

/// The stages of a pipeline's requests as results tell them: what each needs, takes, and could take at the least.
namespace headroom {

/// Those that ran since generate() was last called.
[[nodiscard]] std::vector<StageRecord> describe_stages(const Generator& generator);

/// What a generation runs of a stage on the device.
struct StageWork {
  std::string stage;
  std::shared_ptr<const Program> program;
  std::int64_t runs = 0;  ///< of the program
};
/// Of those stages; it may outlive the generator.
[[nodiscard]] std::vector<StageWork> work_of_stages(const Generator& generator);
/// Measures the rates of the machine, and adds to each of the stages the floor of its work. Takes some seconds, and on
/// the device a GiB.
void add_floors(std::vector<StageRecord>& stages, std::span<const StageWork> work, Backend& backend);

/// The names of the stages that any of the results has.
[[nodiscard]] std::vector<std::string> stages_of(std::span<const Result* const> results);

/// The time of every stage with its 95% interval, a line for each result with its label and the number of generations that
/// were timed, and beside a time how many times its floor that is: "9.5 ms (1.2x)". Nothing where no result has a stage
/// besides the loop and its inputs.
[[nodiscard]] std::optional<Table> to_stage_table(std::span<const std::pair<std::string, const Result*>> results);

/// The same as columns that only CSV has, of tables with a row for each result: time, interval and floor of each stage in
/// ms, and the generations that were timed.
[[nodiscard]] std::vector<Column> stage_fields(std::span<const std::string> stages);
[[nodiscard]] std::vector<Cell> stage_values(const Result& result, std::span<const std::string> stages);

}  // namespace headroom
