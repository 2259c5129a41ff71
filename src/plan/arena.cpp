#include "plan/arena.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>

namespace headroom {
namespace {

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

/// Places storages in the given order; returns the arena's size.
std::size_t place_in_order(std::vector<Storage>& storages, const std::vector<std::size_t>& order) {
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
    placed.insert(std::ranges::upper_bound(placed, storage.arena_offset, {}, &Storage::arena_offset), &storage);
  }
  return size;
}

}  // namespace

std::size_t assign_offsets(std::vector<Storage>& storages) {
  std::vector<std::size_t> order;
  for (std::size_t s = 0; s < storages.size(); ++s)
    if (in_arena(storages[s])) order.push_back(s);

  const auto span = [&](std::size_t s) { return storages[s].last - storages[s].first + 1; };
  const auto area = [&](std::size_t s) { return static_cast<double>(storages[s].bytes) * span(s); };
  const auto by_size = [&](std::size_t a, std::size_t b) { return storages[a].bytes > storages[b].bytes; };
  const auto by_area = [&](std::size_t a, std::size_t b) { return area(a) > area(b); };
  const auto by_end = [&](std::size_t a, std::size_t b) { return storages[a].last > storages[b].last; };
  const auto by_span = [&](std::size_t a, std::size_t b) { return span(a) > span(b); };

  std::size_t smallest = std::numeric_limits<std::size_t>::max();
  std::vector<std::size_t> offsets(storages.size(), 0);
  const auto attempt = [&](auto compare) {
    std::ranges::sort(order);  // ties in schedule order, whatever was tried before
    std::ranges::stable_sort(order, compare);
    const std::size_t size = place_in_order(storages, order);
    if (size >= smallest) return;
    smallest = size;
    for (const std::size_t s : order) offsets[s] = storages[s].arena_offset;
  };
  attempt(by_size);
  attempt(by_area);
  attempt(by_span);
  attempt(by_end);
  for (const std::size_t s : order) storages[s].arena_offset = offsets[s];
  return order.empty() ? 0 : smallest;
}

}  // namespace headroom
