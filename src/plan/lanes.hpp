#pragma once

#include <limits>
#include <vector>

#include "plan/program.hpp"

namespace headroom {

/// Spreads the steps over up to `most` lanes, which run at the same time: sets Step::lane and Step::waits, and
/// Program::lanes to the number of lanes in use.
///
/// A step takes the lane where it can begin earliest by a rough estimate of what each costs, in schedule order; among
/// equals it stays behind the latest step that it needs, so chains keep to a lane. Before and after a loop, and between
/// its iterations, all lanes meet. Which step needs which is read off the bytes that each reads and writes, parts of
/// one storage told apart by their strides.
///
/// A step also waits until all those have run that come `window` steps or more before it in the schedule. Without
/// that a lane of steps that need nothing of another one, as the keys and values of a text, may run as far ahead as
/// it likes, and all that the other lane ever made is kept from being handed on.
///
/// Comes after values are placed and before lifetimes, which it stretches (see last_concurrent()).
void assign_lanes(Program& program, int most, int window = std::numeric_limits<int>::max());

/// assign_lanes() and share_scratch() with the widest window, or else the one of least memory, for which the
/// activations and scratch that are live at once are at most kMostLaneMemory times those of one lane. Fills in
/// lifetimes.
void spread_over_lanes(Program& program, int most);

/// How much more memory lanes may take than the schedule in one.
inline constexpr double kMostLaneMemory = 1.4;

/// Gives steps of one lane that follow each other one scratch, as large as the largest needs, where other lanes would
/// keep the scratch of the one from being handed to the other: a lane's steps never run beside each other. Where many
/// independent steps are spread over lanes, as before a denoise loop, each would hold its own until all have run.
void share_scratch(Program& program);

/// For each step the last step, in schedule order, that may still be running beside it, at least the step itself:
/// memory that a step touches must not be handed to any step up to that one.
[[nodiscard]] std::vector<int> last_concurrent(const Program& program);

}  // namespace headroom
