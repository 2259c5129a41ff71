#include "plan/program.hpp"

#include <algorithm>

namespace headroom {

const TiledRun* tiled_run_at(const Program& program, int step) {
  const auto found =
      std::ranges::find_if(program.tiled, [&](const TiledRun& run) { return run.first <= step && step < run.last; });
  return found == program.tiled.end() ? nullptr : &*found;
}

std::int64_t most_host_reads(const Segment& segment) {
  std::int64_t inside = 0;
  std::int64_t most_of_a_branch = 0;
  for (const Segment& child : segment.children) {
    const std::int64_t reads = most_host_reads(child);
    inside += reads;
    most_of_a_branch = std::max(most_of_a_branch, reads);
  }
  return segment.kind == SegmentKind::kIf ? 1 + most_of_a_branch : segment.trip_count * inside;
}

}  // namespace headroom
