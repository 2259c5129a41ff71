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

/// The calls of the denoiser that `meancache=K` computes are calibrated once for a model and a request, for every K.
/// The result is stored next to the denoiser's weights in `meancache.json` (schema `headroom.meancache/1`), which
/// holds calibrations for several requests.
namespace headroom {

inline constexpr std::string_view kCalibrationFile = "meancache.json";

/// The properties of a request that affect the denoiser's predictions, apart from the content of the image.
struct CalibratedRequest {
  std::string sampler;  ///< "euler"
  std::int64_t steps = 0;
  std::optional<double> shift;  ///< if it differs from the model's own
  std::int64_t token_rows = 0;
  std::int64_t token_columns = 0;
  double guidance_scale = 0;
  double true_cfg_scale = 0;
  std::vector<double> timesteps;  ///< [calls]: the sampler's timesteps
  friend bool operator==(const CalibratedRequest&, const CalibratedRequest&) = default;
};
[[nodiscard]] CalibratedRequest calibrated_request(const Pipeline& pipeline, const Request& request);

struct StepCalibration {
  CalibratedRequest request;
  std::int64_t images = 0;              ///< used for the calibration
  std::vector<StepSchedule> schedules;  ///< for 1, 2, ..., calls - 1 computed calls, with the measured errors
  friend bool operator==(const StepCalibration&, const StepCalibration&) = default;
};

/// The file of the calibrations; empty if weights are random.
[[nodiscard]] std::filesystem::path calibration_file(const Pipeline& pipeline);
/// The calibrations for a pipeline in a file, by default calibration_file(). Nothing if the file does not exist or
/// belongs to other weights. Throws Error for an invalid file.
[[nodiscard]] std::optional<std::vector<StepCalibration>> read_calibrations(const Pipeline& pipeline,
                                                                            std::filesystem::path file = {});
/// Stores a calibration in such a file atomically. It replaces one for the same request, and all that belong to other
/// weights.
void keep_calibration(const Pipeline& pipeline, const StepCalibration& calibration, std::filesystem::path file = {});

/// Switches in which `meancache=K` has the schedule calibrated for the request, and a note that says which steps are
/// computed, or why that schedule is not used. Switches without `meancache`, or with a schedule, are unchanged and
/// have no note. Throws as read_calibrations() does.
struct CalibratedSwitches {
  SwitchSet switches;
  std::string note;
};
[[nodiscard]] CalibratedSwitches with_calibration(const Pipeline& pipeline, const Request& request,
                                                  const SwitchSet& switches);

}  // namespace headroom
