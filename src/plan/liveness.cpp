#include "plan/liveness.hpp"

#include <algorithm>
#include <vector>

#include "plan/arena.hpp"
#include "plan/lanes.hpp"

namespace headroom {
namespace {

/// Needs inside a loop of what was made before it last until the loop's last step.
void stretch_over_loops(const Segment& segment, const std::vector<std::vector<int>>& touched,
                        std::vector<Storage>& storages) {
  for (const Segment& child : segment.children) stretch_over_loops(child, touched, storages);
  if (segment.kind != RegionKind::kLoop) return;
  for (std::size_t s = 0; s < storages.size(); ++s) {
    const bool inside =
        std::ranges::any_of(touched[s], [&](int step) { return step >= segment.first && step < segment.last; });
    if (inside && storages[s].first < segment.first) storages[s].last = std::max(storages[s].last, segment.last - 1);
  }
}

}  // namespace

void find_lifetimes(Program& program) {
  std::vector<std::vector<int>> touched(program.storages.size());
  const auto touch = [&](int storage, int step) {
    if (storage >= 0) touched[static_cast<std::size_t>(storage)].push_back(step);
  };
  for (int i = 0; i < static_cast<int>(program.steps.size()); ++i) {
    const Step& step = program.steps[static_cast<std::size_t>(i)];
    for (const Placement& place : step.input_places) touch(place.storage, i);
    for (const Placement& place : step.output_places) touch(place.storage, i);
    touch(step.scratch, i);
  }
  const int end = std::max(0, static_cast<int>(program.steps.size()) - 1);
  for (const TiledRun& run : program.tiled) {
    touch(run.memory, run.first);
    // Parts are at different steps at the same time.
    for (std::size_t s = 0; s < touched.size(); ++s) {
      if (program.storages[s].kind == StorageKind::kPart) continue;
      const auto is_inside = [&](int step) { return run.first <= step && step < run.last; };
      if (std::ranges::none_of(touched[s], is_inside)) continue;
      touch(static_cast<int>(s), run.first);
      touch(static_cast<int>(s), run.last - 1);
    }
  }
  for (const Output& output : program.graph.outputs()) touch(program.places[index_of(output.value)].storage, end);

  const std::vector<int> concurrent = last_concurrent(program);
  for (std::size_t s = 0; s < touched.size(); ++s) {
    if (touched[s].empty()) continue;
    program.storages[s].first = *std::ranges::min_element(touched[s]);
    if (program.steps.empty()) continue;  // an output that is an input
    for (const int step : touched[s])
      program.storages[s].last = std::max(program.storages[s].last, concurrent[static_cast<std::size_t>(step)]);
  }
  stretch_over_loops(program.root, touched, program.storages);
}

std::size_t arena_lower_bound(const Program& program) {
  std::vector<std::size_t> begins(program.steps.size() + 1), ends(program.steps.size() + 1);
  for (const Storage& storage : program.storages) {
    if (storage.kind != StorageKind::kArena && storage.kind != StorageKind::kScratch) continue;
    begins[static_cast<std::size_t>(storage.first)] += aligned_size(storage.bytes);
    ends[static_cast<std::size_t>(storage.last)] += aligned_size(storage.bytes);
  }
  std::size_t live = 0, most = 0;
  for (std::size_t i = 0; i < begins.size(); ++i) {
    live += begins[i];
    most = std::max(most, live);
    live -= ends[i];
  }
  return most;
}

}  // namespace headroom
