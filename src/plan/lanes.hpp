#pragma once

#include <vector>

#include "plan/program.hpp"

namespace headroom {

/// Spreads the steps over up to `most` lanes, which run at the same time. Sets Step::lane and Step::waits, and
/// Program::lanes to the number of lanes in use.
///
/// Steps are assigned in schedule order, each to the lane where it can begin earliest by a rough cost estimate. Among
/// equal lanes it takes the lane of the latest step that it depends on, so that dependent chains keep to one lane.
/// All lanes join before and after a loop and between its iterations. Dependencies follow from the bytes that each
/// step reads and writes; disjoint parts of one storage are recognized by their strides.
///
/// Runs after values are placed and before lifetimes are computed, which it extends (see last_concurrent()).
void assign_lanes(Program& program, int most);

/// Gives consecutive steps of one lane one shared scratch, as large as the largest need. Without it, other lanes
/// would prevent the reuse of scratch from one step to the next, although steps of one lane never run concurrently.
/// If many independent steps are spread over lanes, as before a denoise loop, each would hold its own scratch until
/// all have run.
void share_scratch(Program& program);

/// For each step, the last step in schedule order that may run concurrently with it, at least the step itself. Memory
/// that a step uses must not be reused by any step up to that one.
[[nodiscard]] std::vector<int> last_concurrent(const Program& program);

}  // namespace headroom
