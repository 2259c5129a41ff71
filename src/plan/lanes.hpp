#pragma once

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
/// Comes after values are placed and before lifetimes, which it stretches (see last_concurrent()).
void assign_lanes(Program& program, int most);

/// Gives steps of one lane that follow each other one scratch, as large as the largest needs, where other lanes would
/// keep the scratch of the one from being handed to the other: a lane's steps never run beside each other. Where many
/// independent steps are spread over lanes, as before a denoise loop, each would hold its own until all have run.
void share_scratch(Program& program);

/// For each step the last step, in schedule order, that may still be running beside it, at least the step itself:
/// memory that a step touches must not be handed to any step up to that one.
[[nodiscard]] std::vector<int> last_concurrent(const Program& program);

}  // namespace headroom
