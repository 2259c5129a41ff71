#include "plan/liveness.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "plan/arena.hpp"
#include "plan/lanes.hpp"
#include "plan/lifetime.hpp"

namespace headroom {
namespace {

/// When steps touch storages.
using Touches = std::vector<std::pair<int, int>>;  // storage, step

void find_regions(const Segment& segment, std::vector<Lifetime>& loops, Touches& touches) {
  if (segment.kind == SegmentKind::kLoop && segment.first < segment.last)
    loops.push_back({segment.first, segment.last - 1});
  if (segment.kind == SegmentKind::kIf) touches.emplace_back(segment.predicate.storage, segment.first);
  for (const Segment& child : segment.children) find_regions(child, loops, touches);
}

Touches find_touches(const Program& program) {
  Touches touches;
  for (int i = 0; i < static_cast<int>(program.steps.size()); ++i) {
    const Step& step = program.steps[static_cast<std::size_t>(i)];
    const TiledRun* const run = tiled_run_at(program, i);
    const auto touch = [&](int storage) {
      touches.emplace_back(storage, i);
      if (run == nullptr || storage < 0 ||
          program.storages[static_cast<std::size_t>(storage)].kind == StorageKind::kPart)
        return;
      touches.emplace_back(storage, run->first);  // parts are at different steps at the same time
      touches.emplace_back(storage, run->last - 1);
    };
    for (const Place& place : step.input_places) touch(place.storage);
    for (const Place& place : step.output_places) touch(place.storage);
    touch(step.scratch);
    if (run != nullptr) touch(run->memory);
  }
  for (const Place& place : program.outputs)
    touches.emplace_back(place.storage, static_cast<int>(program.steps.size()) - 1);
  return touches;
}

}  // namespace

void find_lifetimes(Program& program) {
  if (program.steps.empty()) return;  // nothing but outputs that are states
  Touches touches = find_touches(program);
  std::vector<Lifetime> spans;
  find_regions(program.root, spans, touches);
  std::erase_if(touches, [](const auto& touch) { return touch.first < 0; });
  const Loops loops(static_cast<int>(program.steps.size()), std::move(spans));
  const std::vector<int> concurrent = last_concurrent(program);
  std::vector<bool> is_touched(program.storages.size(), false);
  for (const auto& [s, step] : touches) {
    Storage& storage = program.storages[static_cast<std::size_t>(s)];
    storage.first = is_touched[static_cast<std::size_t>(s)] ? std::min(storage.first, step) : step;
    is_touched[static_cast<std::size_t>(s)] = true;
  }
  for (const auto& [s, step] : touches) {
    Storage& storage = program.storages[static_cast<std::size_t>(s)];
    storage.last =
        std::max(storage.last, loops.needed_until(storage.first, concurrent[static_cast<std::size_t>(step)]));
  }
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
