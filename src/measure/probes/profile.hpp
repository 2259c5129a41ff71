#pragma once

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
  int trials = 20;           ///< steps to time whole, and again launch by launch, at least
  double floor_seconds = 1;  ///< for each rate, and each kernel alone, that is measured
  /// With 2 or more, whole steps and floors are measured in so many turns, each with its share of the trials and
  /// seconds, so that both meet the same moods of a shared machine.
  int turns = 1;
};

/// What a line of the table stands for: launches of one op and kernel, those of one module (`blocks.*.attn.to_q`), or
/// one launch.
enum class ProfileRows : std::uint8_t { kOp, kModule, kLaunch };

/// Told as the work goes on: what is being done, and how far it has come.
using ProfileObserver = std::function<void(std::string_view phase, std::int64_t done, std::int64_t total)>;

/// What is profiled: a session, and how it is run once. What its program's loop runs in each turn is a step; of a
/// program without a loop a whole run is.
struct ProfiledRun {
  Session& session;
  std::function<void(const IterationObserver& observer)> run;
};

/// Where the time of one run goes, launch by launch, against the floor of each.
///
/// The floor of a launch is what this machine could do it in (measure/probes/floor.hpp). Beside it stands how long the kernel
/// takes alone and hot, on dense operands of the same shapes and without its activation, where it is a product,
/// attention or a convolution: what is between the two a better kernel could save, what is above both lies between
/// launches. Launches inside the loop make up the step; those before and after it run once a run. While it is profiled
/// the session records straight runs of steps, so that the host is told of each turn and launches are told apart.
struct Profile {
  std::vector<Trials> steps;   ///< ms of whole steps, nothing observed inside; for each turn
  std::vector<Trials> floors;  ///< sum of the floors of the launches of a step, as one trial; for each turn
  ProfileRecord launches;
  double step_launches_ms = 0;     ///< sum of the median times of the launches of a step
  double step_alone_ms = 0;        ///< sum of their times alone, of what is not timed alone the floor
  double once_ms = 0;              ///< sum of the median times of launches outside the loop
  std::vector<TraceSlice> slices;  ///< what ran when, of the last run that was observed
  /// Why times may be wrong, one clause for each phase that something disturbed: find_disturbance() of whole steps, of
  /// the launches and of the floors.
  std::vector<std::string> disturbances = {};

  /// Of the whole steps, of all turns.
  [[nodiscard]] double step_ms() const;
  /// The median over turns.
  [[nodiscard]] double step_floor_ms() const;
  /// How many times its floors a step takes: the median over turns of each turn's own.
  [[nodiscard]] double over_floor() const;
};

[[nodiscard]] Profile profile(const ProfiledRun& run, Backend& backend, const ProfileOptions& options = {},
                              const ProfileObserver& observer = {});

/// The profile as a table with time, bytes, the kernel alone, floor and headroom, and below it what disturbed the
/// measurement. What took up to 5% less than its floor is at it. What took less than that is marked, without a factor:
/// the floor does not bound it.
[[nodiscard]] Printout to_profile_table(const Profile& profile, const PlanRecord& plan, ProfileRows rows);

}  // namespace headroom
