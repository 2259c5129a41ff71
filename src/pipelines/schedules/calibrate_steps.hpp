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

/// Schedules of `meancache` for 1, 2, ..., calls - 1 computed calls, with the relative L2 of what comes out against whole loops.
struct MeasuredSchedules {
  std::vector<StepSchedule> best;
  std::vector<double> spread_errors;  ///< of evenly spread calls
};

/// What a calibration takes: images in whole generations, of which number i takes the pipeline's prompt i, round and round, and
/// seed `seed` + i.
struct CalibrationEffort {
  std::int64_t images = 64;         ///< in whole loops, whose answers are recorded
  std::int64_t probed_images = 10;  ///< the first ones again under many schedules
  std::uint64_t seed = 0;
};
/// Told how many steps of a phase are done.
using CalibrationObserver = std::function<void(std::string_view phase, std::int64_t done, std::int64_t total)>;
/// Finds them by images: a search over what whole loops answered (pipelines/schedules/step_schedule.hpp) gives a few schedules for each
/// number of computed calls, and the one that images come out best under is taken. Before that images with each call
/// skipped by itself tell how much more it changes because later answers change too. `options` is of one generation. Throws a
/// usage Error for a request with an image, and for fewer than 2 or more than 128 calls of the denoiser; Error for a loop
/// without a velocity, and where latents are not finite.
[[nodiscard]] MeasuredSchedules calibrate_steps(const Pipeline& pipeline, Backend& backend, WeightStore& weights,
                                                const RequestOptions& options, const CalibrationEffort& effort,
                                                const CalibrationObserver& observer = {});

}  // namespace headroom
