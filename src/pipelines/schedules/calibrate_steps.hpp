#pragma once

#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "backends/backend.hpp"
#include "pipelines/pipeline.hpp"
#include "pipelines/schedules/step_schedule.hpp"
#include "run/weights/weight_store.hpp"

namespace headroom {

/// The calibration of the switch `meancache` by experiment: schedules for 1, 2, ..., calls - 1 computed calls, with
/// the relative L2 error of their results against whole loops.
struct MeasuredSchedules {
  std::vector<StepSchedule> best;
  std::vector<double> spread_errors;  ///< of evenly spaced calls
};

/// The effort of a calibration, in images of whole generations. Image i takes the pipeline's prompt i, modulo their
/// number, and seed `seed` + i.
struct CalibrationEffort {
  std::int64_t images = 64;         ///< whole loops whose predictions are recorded
  std::int64_t probed_images = 10;  ///< the first of these images are made again under many schedules
  std::uint64_t seed = 0;
};
/// Called with the number of finished steps of a phase: 0 when it begins, so that its time is known, then each step.
using CalibrationObserver = std::function<void(std::string_view phase, std::int64_t done, std::int64_t total)>;
/// Finds the schedules by experiment. A search over the recorded predictions of whole loops
/// (pipelines/schedules/step_schedule.hpp) gives some candidates for each number of computed calls. The candidate
/// whose images have the least error is taken. Before the search, images with one skipped call each measure how much
/// later predictions add to the change. `options` describes one generation. Throws a usage Error for a request with
/// an image, and for fewer than 2 or more than 128 calls of the denoiser. Throws Error for a loop without a velocity,
/// and for latents that are not finite.
[[nodiscard]] MeasuredSchedules calibrate_steps(const Pipeline& pipeline, Backend& backend, WeightStore& weights,
                                                const RequestOptions& options, const CalibrationEffort& effort,
                                                const CalibrationObserver& observer = {});

}  // namespace headroom
