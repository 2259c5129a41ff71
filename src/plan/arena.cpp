#include "plan/arena.hpp"

#include <algorithm>
#include <functional>
#include <limits>
#include <set>
#include <utility>

#include "plan/lanes.hpp"
#include "plan/timeline.hpp"

namespace headroom {
namespace {

/// The steps at which storages are used.
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

bool in_arena(const Storage& storage) {
  return storage.bytes > 0 && (storage.kind == StorageKind::kArena || storage.kind == StorageKind::kScratch);
}

bool overlap_in_time(const Storage& a, const Storage& b) { return a.first <= b.last && b.first <= a.last; }

/// The tightest gap between `neighbours` (sorted by offset) that holds `bytes`, or the end of the last.
std::size_t best_gap(const std::vector<const Storage*>& neighbours, std::size_t bytes) {
  std::size_t best = 0, best_size = std::numeric_limits<std::size_t>::max(), end = 0;
  bool found = false;
  for (const Storage* neighbour : neighbours) {
    if (neighbour->arena_offset >= end + bytes && neighbour->arena_offset - end < best_size) {
      best = end;
      best_size = neighbour->arena_offset - end;
      found = true;
    }
    end = std::max(end, neighbour->arena_offset + aligned_size(neighbour->bytes));
  }
  return found ? best : end;
}

/// Places storages in the given order; returns the arena's size, or `most` as soon as it is reached.
std::size_t place_in_order(std::vector<Storage>& storages, const std::vector<std::size_t>& order, std::size_t most) {
  std::vector<const Storage*> placed;  // sorted by offset
  std::vector<const Storage*> neighbours;
  std::size_t size = 0;
  for (const std::size_t s : order) {
    Storage& storage = storages[s];
    neighbours.clear();
    for (const Storage* other : placed)
      if (overlap_in_time(*other, storage)) neighbours.push_back(other);
    storage.arena_offset = best_gap(neighbours, aligned_size(storage.bytes));
    size = std::max(size, storage.arena_offset + aligned_size(storage.bytes));
    if (size >= most) return most;
    placed.insert(std::ranges::upper_bound(placed, storage.arena_offset, {}, &Storage::arena_offset), &storage);
  }
  return size;
}

/// The most bytes that are live at one step.
std::size_t most_live(const std::vector<Storage>& storages) {
  std::vector<std::size_t> begins, ends;
  for (const Storage& storage : storages) {
    if (!in_arena(storage)) continue;
    const auto last = static_cast<std::size_t>(storage.last);
    if (last >= ends.size()) {
      begins.resize(last + 1);
      ends.resize(last + 1);
    }
    begins[static_cast<std::size_t>(storage.first)] += aligned_size(storage.bytes);
    ends[last] += aligned_size(storage.bytes);
  }
  std::size_t live = 0, most = 0;
  for (std::size_t i = 0; i < begins.size(); ++i) {
    live += begins[i];
    most = std::max(most, live);
    live -= ends[i];
  }
  return most;
}

}  // namespace

void find_lifetimes(Program& program) {
  if (program.steps.empty()) return;  // all outputs are states
  Touches touches = find_touches(program);
  std::vector<Lifetime> loops;
  find_regions(program.root, loops, touches);
  std::erase_if(touches, [](const auto& touch) { return touch.first < 0; });
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
        std::max(storage.last, needed_until(loops, storage.first, concurrent[static_cast<std::size_t>(step)]));
  }
}

std::size_t arena_lower_bound(const Program& program) { return most_live(program.storages); }

std::size_t assign_offsets(std::vector<Storage>& storages) {
  std::vector<std::size_t> order;
  for (std::size_t s = 0; s < storages.size(); ++s)
    if (in_arena(storages[s])) order.push_back(s);

  const auto span = [&](std::size_t s) { return storages[s].last - storages[s].first + 1; };
  const auto area = [&](std::size_t s) { return static_cast<double>(storages[s].bytes) * span(s); };

  const std::size_t least = most_live(storages);
  std::size_t smallest = std::numeric_limits<std::size_t>::max();
  std::vector<std::size_t> offsets(storages.size(), 0);
  const auto attempt = [&](auto largest_first) {
    if (smallest == least) return;
    std::ranges::sort(order);  // ties in schedule order, independent of earlier orders
    std::ranges::stable_sort(order, std::greater{}, largest_first);
    const std::size_t size = place_in_order(storages, order, smallest);
    if (size >= smallest) return;
    smallest = size;
    for (const std::size_t s : order) offsets[s] = storages[s].arena_offset;
  };
  attempt([&](std::size_t s) { return storages[s].bytes; });
  attempt(area);
  attempt(span);
  attempt([&](std::size_t s) { return storages[s].last; });
  for (const std::size_t s : order) storages[s].arena_offset = offsets[s];
  return order.empty() ? 0 : smallest;
}

std::vector<StepMemory> memory_by_step(const Program& program) {
  std::vector<StepMemory> memory(program.steps.size());
  for (const Storage& storage : program.storages) {
    if (storage.kind != StorageKind::kArena) continue;
    for (int step = storage.first; step <= storage.last; ++step)
      memory[static_cast<std::size_t>(step)].activations += storage.bytes;
    memory[static_cast<std::size_t>(storage.first)].made += storage.bytes;
  }
  for (std::size_t i = 0; i < program.steps.size(); ++i) {
    const Step& step = program.steps[i];
    if (step.scratch >= 0) {
      const Storage& scratch = program.storages[static_cast<std::size_t>(step.scratch)];
      memory[i].scratch = scratch.bytes;
      if (scratch.kind == StorageKind::kPart) {  // one per thread, as a part of the activations
        memory[i].scratch *= static_cast<std::size_t>(program.target.threads);
        memory[i].activations -= memory[i].scratch;
      }
    }
    std::set<int> read;  // several inputs may be views of one weight
    for (const Place& place : step.input_places) {
      if (place.storage < 0 || !read.insert(place.storage).second) continue;
      const Storage& storage = program.storages[static_cast<std::size_t>(place.storage)];
      if (storage.kind == StorageKind::kWeight) memory[i].weights += storage.bytes;
    }
  }
  return memory;
}

}  // namespace headroom
