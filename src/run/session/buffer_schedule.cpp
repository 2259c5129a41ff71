#include "run/session/buffer_schedule.hpp"

#include <algorithm>
#include <cstddef>

namespace headroom {
namespace {

/// The outermost loop or `if` that a storage with last use `last` crosses: it lives from before that region, or from
/// before the branch of `last`. The storage is freed after that region, whichever branch ran. Null if there is none.
const Segment* find_crossed(const Segment& segment, int first, int last) {
  for (const Segment& child : segment.children) {
    if (last < child.first || last >= child.last) continue;
    if (first < child.first && segment.kind == SegmentKind::kIf) return &segment;
    if (first < child.first && child.kind == SegmentKind::kLoop) return &child;
    return find_crossed(child, first, last);
  }
  return nullptr;
}

/// Whether one straight run of steps contains both `first` and `last`.
bool lies_in_straight_run(const Segment& segment, int first, int last) {
  if (segment.children.empty()) return segment.first <= first && last < segment.last;
  return std::ranges::any_of(segment.children,
                             [&](const Segment& child) { return lies_in_straight_run(child, first, last); });
}

}  // namespace

bool is_activation(const Storage& storage) {
  return storage.kind == StorageKind::kArena || storage.kind == StorageKind::kScratch;
}

BufferSchedule schedule_buffers(const Program& program) {
  BufferSchedule schedule;
  schedule.take_before.resize(program.steps.size());
  schedule.give_after.resize(program.steps.size());
  for (std::size_t i = 0; i < program.steps.size(); ++i) {
    const auto touch = [&](int storage) {
      if (storage >= 0 && is_activation(program.storages[static_cast<std::size_t>(storage)]))
        schedule.take_before[i].push_back(storage);
    };
    for (const Place& place : program.steps[i].input_places) touch(place.storage);
    for (const Place& place : program.steps[i].output_places) touch(place.storage);
    touch(program.steps[i].scratch);
  }
  std::vector<bool> is_output(program.storages.size(), false);
  for (const Place& output : program.outputs) is_output[static_cast<std::size_t>(output.storage)] = true;

  for (std::size_t s = 0; s < program.storages.size(); ++s) {
    const Storage& storage = program.storages[s];
    if (!is_activation(storage) || is_output[s]) continue;
    if (program.has_graph && !lies_in_straight_run(program.root, storage.first, storage.last)) continue;
    if (const Segment* const crossed = find_crossed(program.root, storage.first, storage.last))
      schedule.give_after_segment[crossed].push_back(static_cast<int>(s));
    else
      schedule.give_after[static_cast<std::size_t>(storage.last)].push_back(static_cast<int>(s));
  }
  return schedule;
}

}  // namespace headroom
