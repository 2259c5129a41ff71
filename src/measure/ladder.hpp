#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "backends/backend.hpp"
#include "base/host_tensor.hpp"
#include "base/switches.hpp"
#include "measure/result.hpp"
#include "run/generator.hpp"
#include "run/model.hpp"

namespace headroom {

/// What to climb.
struct LadderOptions {
  SwitchSet switches;        ///< each alone, then added one after the other in pipeline order
  bool only_ends = false;    ///< the baseline and all switches together, and nothing between
  GeneratorOptions request;  ///< its own switches are ignored; images 0 means one for each label
  std::uint64_t seed = 0;    ///< of the first image; each next image takes the next
  int warmup_steps = 5;      ///< of the first generation, run but not counted
  int min_trials = 20;       ///< steps to time at least, in as many generations as that takes
  /// A rung ends before its min_trials, after whole generations, once is_precise() holds of its steps for this share; 0
  /// for never.
  double precision = 0;
  int rounds = 1;  ///< times the ladder is climbed, up and down in turn, so that a machine's slow drift cancels
  std::int64_t quality_images = 0;  ///< images to make and judge at each rung, 0 for none; rounded up to whole batches
};

/// One configuration, measured.
struct Rung {
  std::string name;  ///< "baseline", "fuse", "arena+fuse"
  SwitchSet switches;
  bool cumulative = false;  ///< adds to the cumulative rung before it, rather than standing alone
  DenoiseRequest denoise;   ///< what one generation does
  Result result;  ///< with the series "step" (ms of one denoise step), "image" (ms of one image: whole generations, the
                  ///< warm-up steps of each round's first among them) and, where something runs outside the loop,
                  ///< "prologue" (ms of a generation)
  HostTensor
      pixels;  ///< of the first generation, [images, channels, height, width]; empty where the model has no pixels
  double image_ms = 0;  ///< (median prologue + steps * median step) / images
  std::optional<Interval> image_interval_ms;
};

struct Ladder {
  std::vector<Rung> rungs;  ///< baseline, singles, then the cumulative ones
  std::map<std::string, PlanRecord> plans;
  double product_of_singles = 1;  ///< of the factors of the switches alone, in time per image
  double combined = 1;            ///< factor of all together; over product_of_singles where switches help each other
};

/// Told before each rung and after each step of it.
struct LadderProgress {
  std::string rung;
  std::int64_t round = 0;        ///< 0 first
  std::int64_t rung_number = 0;  ///< 1 first
  std::int64_t rungs = 0;
  std::int64_t steps_done = 0;   ///< of this rung
  std::int64_t steps_total = 0;  ///< of this rung, in whole generations; fewer where `precision` ends it early
};

/// Measures baseline, every switch alone and all together, one after the other, each with buffers of its own; weights
/// that a rung shares with the one before are not loaded again. Images of all rungs come from the same seeds; their
/// PSNR is against the baseline's. With random weights no quality is reported.
[[nodiscard]] Ladder climb(const Model& model, Backend& backend, const LadderOptions& options,
                           const std::function<void(const LadderProgress&)>& on_progress = {});

/// The images that a ladder makes at once: those asked for, or one for each label.
[[nodiscard]] std::int64_t images_of(const GeneratorOptions& request, const Model& model);

/// The rungs of a set of switches, in the order they are measured; with `only_ends` the baseline and the whole set.
[[nodiscard]] std::vector<Rung> list_rungs(const SwitchSet& switches, bool only_ends = false);

/// The ladder as a table for the terminal: time per step and image with intervals, factors, peak memory, quality.
[[nodiscard]] std::string to_table(const Ladder& ladder);

}  // namespace headroom
