#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "backends/backend.hpp"
#include "base/switches.hpp"
#include "base/tensors/host_tensor.hpp"
#include "measure/protocol/ladder_rounds.hpp"
#include "measure/results/result.hpp"
#include "measure/tables/printout.hpp"
#include "pipelines/generator.hpp"
#include "run/forward_pass.hpp"
#include "run/weights/weight_store.hpp"

namespace headroom {

/// Options of a ladder.
struct LadderOptions {
  SwitchSet switches;      ///< each measured alone, then added one after another in pipeline order
  bool only_ends = false;  ///< measure only the baseline and all switches together
  RequestOptions request;  ///< its own switches are ignored; images 0 means one image for each label
  std::uint64_t seed = 0;  ///< of the first image; each further image uses the next seed
  int warmup_steps = 5;    ///< of the first generation, run but not counted
  int min_trials = 20;     ///< least number of steps to time, in whole generations
  /// A visit ends early, after whole generations, when is_precise() holds for its steps at this share; 0 disables it.
  double precision = 0;
  int rounds = 2;       ///< visits of every rung, at least 2, alternating up and down
  int max_rounds = 6;   ///< unsettled rungs are visited again, up to this many times in all
  bool floors = false;  ///< add_floors() to the stages of each rung's result at its first visit
  /// Images to make and judge for each rung, rounded up to whole batches. 0 judges the images of the first batch,
  /// without a classifier.
  std::int64_t quality_images = 0;
  std::vector<std::string> prompts = {};  ///< of the images, used cyclically; the pipeline's own prompts if empty
};

/// The work of a ladder that is not a whole request: a pass of a network, or a frame of a stream.
struct LadderPass {
  std::span<const Component> components;  ///< the components with the weights
  /// Makes the pass for these switches: switches of streams, and steps=N, change a frame's graph.
  std::function<ForwardPass(const SwitchSet& switches)> make;
  /// Judges frames under these switches, with the weights of the rung; may be empty.
  std::function<std::vector<QualityRecord>(const SwitchSet& switches, WeightStore& weights)> judge = {};
};

/// One configuration with its measurements.
struct Rung {
  std::string name;  ///< "baseline", "fuse", "arena+fuse"
  SwitchSet switches;
  bool cumulative = false;  ///< adds to the previous cumulative rung, rather than to the baseline alone
  Result result;  ///< Has these series, by visit: "step" (ms of one denoise step), "image" (ms of one image: whole
                  ///< generations, including the warm-up steps of each visit's first) and "prologue" (ms of a
                  ///< generation outside its steps); for a pass only "forward". Its id is empty before the first visit.
  // Set by settle():
  double image_ms = 0;  ///< (median prologue + steps * median step) / images; for a pass its median
  std::optional<Interval> image_interval_ms;
  Factor on_baseline;
  Factor on_before;  ///< relative to the rung that it adds to
};

struct Ladder {
  std::vector<Rung> rungs;  ///< baseline, single switches, then the cumulative rungs
  std::map<std::string, PlanRecord> plans;
  // Set by settle(); each is absent if one of the rungs that it needs is not settled.
  std::optional<Factor> combined;            ///< of all switches together
  std::optional<Factor> product_of_singles;  ///< of the factors of single switches, except those that declined
  std::optional<Factor> synergy;             ///< combined / product_of_singles: over 1 if switches reinforce each other
};

/// The rungs of a set of switches, in measuring order and not yet visited; with `only_ends` the baseline and the
/// whole set.
[[nodiscard]] Ladder make_ladder(const SwitchSet& switches, bool only_ends = false);

/// The rung that `rung` adds to: the previous cumulative one, the first switch alone, or the baseline.
[[nodiscard]] const Rung& before(const Ladder& ladder, const Rung& rung);

/// Visits the given rungs (indices) in that order, with the baseline before and after them unless that is already
/// done, and adds the measurements to the ladder. A visit that the ladder already has is not repeated.
using RoundRun = std::function<void(Ladder& ladder, std::int64_t round, std::span<const std::size_t> rungs)>;

/// Measures the ladder in rounds, alternating up and down: `rounds` visits of every rung, then the unsettled rungs,
/// up to `max_rounds`. Rungs that turn out to equal another one are skipped. Existing measurements are kept. Finally
/// calls settle(). Throws a usage Error for fewer than 2 rounds, or a `max_rounds` below `rounds`.
void climb(Ladder& ladder, int rounds, int max_rounds, const RoundRun& run);

/// Computes times, factors and settled rungs from the visits. Rungs that equal another one get its figures. Visits
/// that are not counted move to series of their own.
void settle(Ladder& ladder);

/// Adds what another process measured in one round, as process `process`.
void add_round(Ladder& ladder, const ResultFile& measured, std::int64_t process);

/// The visited rungs as a result file.
[[nodiscard]] ResultFile to_results(const Ladder& ladder);

/// Progress, reported before each rung and after each step of it.
struct LadderProgress {
  std::string rung;
  std::int64_t round = 0;        ///< 0 first
  std::int64_t rung_number = 0;  ///< 1 first
  std::int64_t rungs = 0;
  std::int64_t steps_done = 0;   ///< of this rung; passes if the ladder measures a pass
  std::int64_t steps_total = 0;  ///< of this rung, in whole generations; the actual number is lower if `precision` ends
                                 ///< it early
};

/// Callbacks during a ladder; each may be empty.
struct LadderObserver {
  std::function<void(const LadderProgress&)> on_progress = {};
  /// The images of a rung's first generation, [images, channels, height, width], if the model has pixels.
  std::function<void(const Rung& rung, const HostTensor& pixels)> on_pixels = {};
  std::function<void()> on_visited = {};  ///< after each visit, when the ladder may be saved
};

/// Runs rounds in this process, as process `process` of the ladder's measurement. Rungs run one after another, each
/// with its own buffers; weights shared with the previous rung are not loaded again. Images of all rungs come from
/// the same seeds; their PSNR and FLIP are against the baseline's. With random weights no quality is reported. A rung
/// all of whose own switches decline is not measured: it equals the rung that has its applied switches. A rung that
/// does not fit in memory is not measured either; it gets kOutOfMemoryTag and the reason. For the baseline,
/// OutOfMemory passes through. `pipeline`, `backend` and the objects that `observer` refers to must outlive the run.
/// Throws a usage Error for quality that cannot be judged.
[[nodiscard]] RoundRun run_rounds_here(const Pipeline& pipeline, Backend& backend, const LadderOptions& options,
                                       std::int64_t process, const LadderObserver& observer = {});
/// The same for a pass; the options `request`, `seed`, `floors`, `quality_images` and `prompts` are ignored. Its
/// quality is "relative_l2", the distance of the first run's outputs from the baseline's, also with random weights,
/// plus the records of `pass.judge`.
[[nodiscard]] RoundRun run_rounds_here(const LadderPass& pass, Backend& backend, const LadderOptions& options,
                                       std::int64_t process, const LadderObserver& observer = {});

/// The number of images in one generation of a ladder: those requested, or one for each label.
[[nodiscard]] std::int64_t images_of(const RequestOptions& request, const Pipeline& pipeline);

/// The ladder as a table: time per step and image with intervals, factors, peak memory, quality. Unsettled rungs,
/// declined switches and synergy are listed below it.
[[nodiscard]] Printout to_table(const Ladder& ladder);

}  // namespace headroom
