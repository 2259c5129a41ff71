#pragma once

#include <limits>
#include <vector>

#include "plan/program.hpp"

namespace headroom {

/// Of assign_lanes(): steps wait only for what they depend on.
inline constexpr int kNoWindow = std::numeric_limits<int>::max();

/// How many times the memory of one lane several lanes may take.
inline constexpr double kMostLaneMemory = 1.4;

/// Spreads the steps over up to `most` lanes, which run at the same time. Sets Step::lane and Step::waits, and
/// Program::lanes to the number of lanes in use.
///
/// Steps are assigned in schedule order, each to the lane where it can begin earliest by a rough cost estimate. Among
/// equal lanes it takes the lane of the latest step that it depends on, so that dependent chains keep to one lane.
/// All lanes join before and after a loop and between its iterations. Dependencies follow from the bytes that each
/// step reads and writes; disjoint parts of one storage are recognized by their strides.
///
/// A step begins only when every step that is at least `window` places before it in the schedule has completed. So a
/// step runs concurrently with fewer than `window` later ones, which bounds how long its memory is kept from reuse.
///
/// Runs after values are placed and before lifetimes are computed, which it extends (see last_concurrent()).
void assign_lanes(Program& program, int most, int window = kNoWindow);

/// Gives consecutive steps of one lane one shared scratch, as large as the largest need. Without it, other lanes
/// would prevent the reuse of scratch from one step to the next, although steps of one lane never run concurrently.
/// If many independent steps are spread over lanes, as before a denoise loop, each would hold its own scratch until
/// all have run.
void share_scratch(Program& program);

/// Spreads the steps over up to `most` lanes with the widest window that keeps the live bytes (arena_lower_bound())
/// within kMostLaneMemory of what they are in one lane; leaves all steps in one lane if no window does. Includes
/// share_scratch().
void spread_over_lanes(Program& program, int most);

/// For each step, the last step in schedule order that may run concurrently with it, at least the step itself. Memory
/// that a step uses must not be reused by any step up to that one.
[[nodiscard]] std::vector<int> last_concurrent(const Program& program);

}  // namespace headroom
