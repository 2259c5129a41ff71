#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>

#include "train/trainer.hpp"

namespace headroom {

/// How a run is carried out; none of it changes a weight.
struct RunOptions {
  std::filesystem::path out = {};  ///< the folder of checkpoints and of log.jsonl
  bool resume = false;             ///< from the last checkpoint in `out`, if there is one
  /// The last step of this call; later ones are left to a call that resumes. The learning rate is that of all steps.
  std::optional<std::int64_t> last_step = std::nullopt;
  /// FLOPs per second that the device can do, for the share of them that the log tells; 0 if unknown.
  double peak_flops = 0;
  std::function<void()> before_step = {};
  std::function<void(const StepRecord& record)> on_step = {};
  std::function<void(std::int64_t step, double loss)> on_validation = {};
  /// Asked after each step and each batch of a validation, which is then given up; if true, the run ends with a
  /// checkpoint.
  std::function<bool()> should_stop = {};
};

struct RunOutcome {
  std::int64_t first_step = 0;  ///< the number of steps that were done before
  std::int64_t last_step = 0;
  std::filesystem::path checkpoint = {};            ///< the last one; empty if nothing was to be done
  std::optional<double> validation = std::nullopt;  ///< the last loss, if there was any
  bool was_stopped = false;
};

/// Trains, and writes log.jsonl and checkpoints. The log has an object for each step and each validation; when a run is
/// resumed, lines after the checkpoint are dropped, so no step is there twice. Throws Error if `out` has checkpoints
/// and the run is not to be resumed.
RunOutcome run_training(Trainer& trainer, const RunOptions& options);

}  // namespace headroom
