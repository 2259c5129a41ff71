#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "backends/backend.hpp"
#include "measure/results/chrome_trace.hpp"
#include "measure/results/result.hpp"
#include "measure/tables/printout.hpp"
#include "run/session/session.hpp"

namespace headroom {

struct ProfileOptions {
  int trials = 20;           ///< least number of steps to time as a whole, and again launch by launch
  double floor_seconds = 1;  ///< for each measured rate and each kernel measured alone
  /// With 2 or more, whole steps and floors are measured in this many alternating rounds, each with its share of the
  /// trials and seconds. Both then see the same variations of a shared machine.
  int rounds = 1;
  bool times_alone = true;  ///< contractions by themselves; no other launches are
};

/// The rows of the table: launches of one op and kernel, those of one module (`blocks.*.attn.to_q`), or single
/// launches.
enum class ProfileRows : std::uint8_t { kOp, kModule, kLaunch };

/// Receives the progress: the current phase, and how far it has come.
using ProfileObserver = std::function<void(std::string_view phase, std::int64_t done, std::int64_t total)>;

/// A session to profile, and how to run it once. A step is one iteration of the program's loop; without a loop it is
/// a whole run.
struct ProfiledRun {
  Session& session;
  std::function<void(const IterationObserver& observer)> run;
  bool is_pass = false;  ///< it runs one pass of a network, and not a request
  /// Called before each run; sets the inputs of a request. Its work is not that of the program.
  std::function<void()> prepare = {};
  /// Of the other ranks that run along: they launch or replay as the session does.
  std::vector<Session*> others = {};
};

/// The time of one run, launch by launch, compared with the floor of each launch.
///
/// The floor of a launch is the least time that this machine needs for it (measure/probes/floor.hpp). For a GEMM,
/// attention or a convolution, the kernel is also timed alone: with warm caches, on dense operands of the same shapes
/// and without its activation. A better kernel could save the difference between that time and the floor. Time beyond
/// both is lost between launches. Launches inside the loop make up the step; those before and after it run once per
/// run. During profiling the session records straight-line runs of steps, so that the host observes each iteration
/// and can distinguish launches.
struct Profile {
  std::vector<Trials> steps;   ///< ms of whole steps, without observation inside; one entry per round
  std::vector<Trials> floors;  ///< sum of the floors of the launches of a step, as one trial; one entry per round
  ProfileRecord launches;
  double step_launches_ms = 0;     ///< sum of the median times of the launches of a step
  double step_alone_ms = 0;        ///< sum of their times alone; launches not timed alone count with their floor
  double once_ms = 0;              ///< sum of the median times of launches outside the loop
  std::vector<TraceSlice> slices;  ///< timeline of the last observed run
  /// Why times may be wrong, one clause for each disturbed phase: find_disturbance() of whole steps, of the launches
  /// and of the floors.
  std::vector<std::string> disturbances = {};
  bool is_pass = false;  ///< ProfiledRun::is_pass

  /// The word for what `steps` are: a step of the loop or, in a pass without a loop, the pass.
  [[nodiscard]] const char* step_name() const;
  /// The median time of whole steps, over all rounds.
  [[nodiscard]] double step_ms() const;
  /// The median over rounds.
  [[nodiscard]] double step_floor_ms() const;
  /// Ratio of a step's time to its floors: the median over rounds of each round's ratio.
  [[nodiscard]] double over_floor() const;
};

[[nodiscard]] Profile profile(const ProfiledRun& run, Backend& backend, const ProfileOptions& options = {},
                              const ProfileObserver& observer = {});

/// The profile as a table with time, bytes, the kernel alone, floor and headroom. A share is that of the launches' time
/// in a whole request or pass, as in reports. Disturbances are listed below it. A
/// launch that took up to 5% less than its floor is shown as at its floor. One that took even less is marked, without
/// a factor: the floor does not bound it.
[[nodiscard]] Printout to_profile_table(const Profile& profile, const PlanRecord& plan, ProfileRows rows);

/// The kind of a module, the part of its path that the layers of a group share: "blocks.*.attn.to_q" for
/// "blocks.3.attn.to_q". At most `most_names` names of the path; the empty path is "(the model itself)".
[[nodiscard]] std::string module_kind(std::string_view path, std::size_t most_names = ~std::size_t{0});

}  // namespace headroom
