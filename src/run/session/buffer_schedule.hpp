#pragma once

#include <map>
#include <vector>

#include "plan/program.hpp"

namespace headroom {

/// Whether a storage is memory of activations or scratch: in the arena, or taken and given back.
[[nodiscard]] bool is_activation(const Storage& storage);

/// When a program without an arena takes the buffers of its activations, and gives them back.
struct BufferSchedule {
  std::vector<std::vector<int>> take_before;  ///< by step: storages that it touches, to take if not held yet
  std::vector<std::vector<int>> give_after;   ///< by step
  std::map<const Segment*, std::vector<int>> give_after_segment;  ///< loops and `if`s, by where they are in the program
};

/// A buffer is taken before the first step that touches it and given back after the last; one that lives across the
/// edge of a loop or branch is given back when that is over, and one that holds an output is kept for the reader. Where
/// straight runs are recorded one by one, some before others have run, what one of them leaves for another is kept too,
/// with its address. `program` must outlive the schedule.
[[nodiscard]] BufferSchedule schedule_buffers(const Program& program);

}  // namespace headroom
