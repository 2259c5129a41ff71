#pragma once

#include <map>
#include <vector>

#include "plan/program.hpp"

namespace headroom {

/// Whether a storage holds activations or scratch: in the arena, or allocated and freed during a run.
[[nodiscard]] bool is_activation(const Storage& storage);

/// When a program without an arena allocates and frees the buffers of its activations.
struct BufferSchedule {
  std::vector<std::vector<int>> take_before;  ///< by step: storages that it touches, allocated if not held yet
  std::vector<std::vector<int>> give_after;   ///< by step
  /// Loops and `if`s, by their address in the program.
  std::map<const Segment*, std::vector<int>> give_after_segment;
};

/// A buffer is allocated before the first step that touches it and freed after the last. A buffer that lives across
/// the edge of a loop or branch is freed after that region. A buffer that holds an output is kept for the reader. If
/// straight runs are recorded one by one, some before others have run, buffers passed between them are kept too, at
/// the same address. `program` must outlive the schedule.
[[nodiscard]] BufferSchedule schedule_buffers(const Program& program);

}  // namespace headroom
