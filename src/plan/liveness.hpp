#pragma once

#include "plan/program.hpp"

namespace headroom {

/// Fills in first and last of every storage from the program's steps: from the first step that touches it to the last
/// that touches it or may run beside one that does.
/// What is made before a loop and read inside it is needed until the loop ends; what the program puts out, until the
/// program ends.
void find_lifetimes(Program& program);

/// The most bytes of arena storages live at any one step: no assignment of offsets can need less.
[[nodiscard]] std::size_t arena_lower_bound(const Program& program);

}  // namespace headroom
