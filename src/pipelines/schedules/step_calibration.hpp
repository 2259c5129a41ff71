#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/switches.hpp"
#include "pipelines/pipeline.hpp"
#include "pipelines/schedules/step_schedule.hpp"

/// Which calls of the denoiser `meancache=K` computes is found once for a model and a request, for every K, and kept beside
/// the denoiser's weights, in `meancache.json` (schema `headroom.meancache/1`), which holds calibrations for several requests.
namespace headroom {

inline constexpr std::string_view kCalibrationFile = "meancache.json";

/// What of a request the answers of the denoiser depend on, whatever the image is of.
struct CalibratedRequest {
  std::string sampler;  ///< "euler"
  std::int64_t steps = 0;
  std::optional<double> shift;  ///< where it is not the model's own
  std::int64_t token_rows = 0;
  std::int64_t token_columns = 0;
  double guidance_scale = 0;
  double true_cfg_scale = 0;
  std::vector<double> timesteps;  ///< [calls]: what the sampler makes of it
  friend bool operator==(const CalibratedRequest&, const CalibratedRequest&) = default;
};
[[nodiscard]] CalibratedRequest calibrated_request(const Pipeline& pipeline, const Request& request);

struct StepCalibration {
  CalibratedRequest request;
  std::int64_t images = 0;              ///< that it was made of
  std::vector<StepSchedule> schedules;  ///< of 1, 2, ..., calls - 1 computed calls, with the errors that were measured
  friend bool operator==(const StepCalibration&, const StepCalibration&) = default;
};

/// Where they are kept; empty where weights are random.
[[nodiscard]] std::filesystem::path calibration_file(const Pipeline& pipeline);
/// Those that a file, unless given calibration_file(), keeps for a pipeline: nothing where there is no file, or one of other weights.
/// Throws Error for a file that is none.
[[nodiscard]] std::optional<std::vector<StepCalibration>> read_calibrations(const Pipeline& pipeline,
                                                                            std::filesystem::path file = {});
/// Keeps a calibration in such a file, complete or not at all, in place of one for the same request, and of all for other weights.
void keep_calibration(const Pipeline& pipeline, const StepCalibration& calibration, std::filesystem::path file = {});

/// Switches in which `meancache=K` has the schedule that was calibrated for the request, and a sentence that says which steps are
/// computed, or why it is not that schedule. As they are, and no sentence, where there is no such switch or it has a
/// schedule already. Throws as read_calibrations() does.
struct CalibratedSwitches {
  SwitchSet switches;
  std::string note;
};
[[nodiscard]] CalibratedSwitches with_calibration(const Pipeline& pipeline, const Request& request,
                                                  const SwitchSet& switches);

}  // namespace headroom
