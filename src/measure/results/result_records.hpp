#pragma once

#include <filesystem>

#include "measure/results/record.hpp"
#include "measure/results/result.hpp"

/// The records of a result file: the one definition of its members, from which files are read, written and checked, and
/// docs/result.schema.json is made.
namespace headroom::records {

[[nodiscard]] const Record<Machine>& machine_record();
[[nodiscard]] const Record<AutoTrial>& auto_trial_record();
[[nodiscard]] const Record<PlanRecord>& plan_record();
[[nodiscard]] const Record<Result>& result_record();
/// The file. Plans that it refers to are read from below `folder`.
[[nodiscard]] Record<ResultFile> result_file_record(const std::filesystem::path& folder);

}  // namespace headroom::records
