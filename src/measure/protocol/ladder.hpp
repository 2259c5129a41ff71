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

/// What to climb.
struct LadderOptions {
  SwitchSet switches;      ///< each alone, then added one after the other in pipeline order
  bool only_ends = false;  ///< the baseline and all switches together, and nothing between
  RequestOptions request;  ///< its own switches are ignored; images 0 means one for each label
  std::uint64_t seed = 0;  ///< of the first image; each next image takes the next
  int warmup_steps = 5;    ///< of the first generation, run but not counted
  int min_trials = 20;     ///< steps to time at least, in as many generations as that takes
  /// A visit ends before its min_trials, after whole generations, once is_precise() holds of its steps for this share;
  /// 0 for never.
  double precision = 0;
  int rounds = 2;       ///< times that every rung is visited, at least 2: up and down in turn
  int max_rounds = 6;   ///< rungs that are not settled by then are visited again, up to so many times in all
  bool floors = false;  ///< at the first visit of each rung, add_floors() to its result's stages
  /// Images to make and judge at each rung, rounded up to whole batches; 0 judges those of the first batch, and asks no
  /// classifier.
  std::int64_t quality_images = 0;
  std::vector<std::string> prompts = {};  ///< that images show, in turn; the pipeline's own where there are none
};

/// What a ladder is climbed on that is no whole request: a pass of a network, or a frame of a stream.
struct LadderPass {
  std::span<const Component> components;  ///< that have the weights
  /// The pass as these switches make it: those of streams, and steps=N, change a frame's graph.
  std::function<ForwardPass(const SwitchSet& switches)> make;
  /// Judges frames under these switches, over the weights of the rung; empty where nothing does.
  std::function<std::vector<QualityRecord>(const SwitchSet& switches, WeightStore& weights)> judge = {};
};

/// One configuration, measured.
struct Rung {
  std::string name;  ///< "baseline", "fuse", "arena+fuse"
  SwitchSet switches;
  bool cumulative = false;  ///< adds to the cumulative rung before it, rather than standing alone
  Result result;  ///< with the series "step" (ms of one denoise step), "image" (ms of one image: whole generations, the
                  ///< warm-up steps of each visit's first among them) and "prologue" (ms of a generation outside
                  ///< its steps), or of a pass "forward" alone; by visit. Its id is empty before the first.
  // What settle() adds:
  double image_ms = 0;  ///< (median prologue + steps * median step) / images; of a pass its median
  std::optional<Interval> image_interval_ms;
  Factor on_baseline;
  Factor on_before;  ///< on the rung that it adds to
};

struct Ladder {
  std::vector<Rung> rungs;  ///< baseline, singles, then the cumulative ones
  std::map<std::string, PlanRecord> plans;
  // What settle() adds; each is absent where a rung that it is made of is not settled.
  std::optional<Factor> combined;            ///< of all together
  std::optional<Factor> product_of_singles;  ///< of the factors of the switches alone, but for those that declined
  std::optional<Factor> synergy;             ///< the first over the second: over 1 where switches help each other
};

/// The rungs of a set of switches, in the order they are measured, not visited yet; with `only_ends` the baseline and
/// the whole set.
[[nodiscard]] Ladder make_ladder(const SwitchSet& switches, bool only_ends = false);

/// The rung that it adds to: the cumulative one before it, the first switch alone, or the baseline.
[[nodiscard]] const Rung& before(const Ladder& ladder, const Rung& rung);

/// Visits rungs, by index, in that order, with the baseline before and after them where that is not done yet, and adds
/// to the ladder what they took. A rung's visit of a round that it has is not made again.
using RoundRun = std::function<void(Ladder& ladder, std::int64_t round, std::span<const std::size_t> rungs)>;

/// Climbs in rounds, up and down in turn: `rounds` times every rung, then those that are not settled, up to
/// `max_rounds`. Rungs that turn out to be another one are left alone. What the ladder has already is kept. Then
/// settles it.
void climb(Ladder& ladder, int rounds, int max_rounds, const RoundRun& run);

/// Works out times, factors and what is settled from the visits, and gives rungs that are another one its figures.
/// Visits that do not count are moved to series of their own.
void settle(Ladder& ladder);

/// Takes over what another process measured in one round, as process `process`.
void add_round(Ladder& ladder, const ResultFile& measured, std::int64_t process);

/// The visited rungs as a file.
[[nodiscard]] ResultFile to_results(const Ladder& ladder);

/// Told before each rung and after each step of it.
struct LadderProgress {
  std::string rung;
  std::int64_t round = 0;        ///< 0 first
  std::int64_t rung_number = 0;  ///< 1 first
  std::int64_t rungs = 0;
  std::int64_t steps_done = 0;   ///< of this rung; passes where it is climbed on one
  std::int64_t steps_total = 0;  ///< of this rung, in whole generations; fewer where `precision` ends it early
};

/// What a climb tells on its way; each may be empty.
struct LadderObserver {
  std::function<void(const LadderProgress&)> on_progress = {};
  /// The images of a rung's first generation, [images, channels, height, width], where the model has pixels.
  std::function<void(const Rung& rung, const HostTensor& pixels)> on_pixels = {};
  std::function<void()> on_visited = {};  ///< after each visit: the ladder may be saved
};

/// Runs rounds here, as process `process` of those that measure the ladder: one rung after the other, each with buffers
/// of its own; weights that a rung shares with the one before are not loaded again. Images of all rungs come from the
/// same seeds; their PSNR and FLIP are against the baseline's. With random weights no quality is reported. A rung all
/// of whose own switches decline is not measured: it is the one whose switches are applied in it. Nor is one that
/// does not fit in memory, which gets kOutOfMemoryTag and the reason, unless it is the baseline, whose OutOfMemory
/// passes through. `pipeline`, `backend` and what `observer` refers to must outlive the run. Throws a usage Error for
/// quality that cannot be judged.
[[nodiscard]] RoundRun run_rounds_here(const Pipeline& pipeline, Backend& backend, const LadderOptions& options,
                                       std::int64_t process, const LadderObserver& observer = {});
/// The same on a pass; of the options `request`, `seed`, `floors`, `quality_images` and `prompts` do not matter. Its
/// quality is "relative_l2": how far the first run's outputs are from the baseline's, also with random weights, and
/// what `pass.judge` says.
[[nodiscard]] RoundRun run_rounds_here(const LadderPass& pass, Backend& backend, const LadderOptions& options,
                                       std::int64_t process, const LadderObserver& observer = {});

/// The images that a ladder makes at once: those asked for, or one for each label.
[[nodiscard]] std::int64_t images_of(const RequestOptions& request, const Pipeline& pipeline);

/// The ladder as a table: time per step and image with intervals, factors, peak memory, quality; below
/// it what is not settled, what declined, and synergy.
[[nodiscard]] Printout to_table(const Ladder& ladder);

}  // namespace headroom
