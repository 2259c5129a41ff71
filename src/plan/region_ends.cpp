#include "plan/region_ends.hpp"

#include <algorithm>
#include <map>
#include <vector>

namespace headroom {
namespace {

class RegionEnds {
 public:
  RegionEnds(const Draft& draft, StorageIndex& index)
      : draft_(draft), index_(index), updates_(draft.graph.regions().size()) {
    for (const StateUpdate& update : draft.graph.state_updates()) {
      updates_[index_of(update.region)].push_back(update);
      states_.emplace(index.place(update.value).storage, update.value);
    }
  }

  /// Regions in the order of their ends, so that the results of an inner one are placed before the outer one needs
  /// them.
  void place(bool arena) {
    for (const Moment& moment : draft_.timeline.moments()) {
      if (moment.kind != Moment::Kind::kEnd && moment.kind != Moment::Kind::kOtherwise) continue;
      const Region& region = draft_.graph.region(moment.region);
      if (arena && moment.kind == Moment::Kind::kEnd)
        for (const StateUpdate& update : updates_[index_of(moment.region)])
          if (can_overwrite(update)) index_.move(update.next, index_.place(update.value));
      if (region.kind == RegionKind::kLoop) place_results(moment.region, kNoRegion);
      if (region.kind == RegionKind::kElse) place_results(region.branch, moment.region);
      if (moment.kind == Moment::Kind::kOtherwise) place_results(moment.region, kNoRegion);
    }
  }

 private:
  /// Whether the next value, with all values at its place, can be placed at the state: it is made in that region,
  /// after the last read of the old state there.
  bool can_overwrite(const StateUpdate& update) const {
    if (!index_.owns_activation(update.next)) return false;
    const int begin = draft_.timeline.begin(update.region);
    const int end = draft_.timeline.end(update.region);
    const int written = index_.lifetime(index_.place(update.next).storage).first;
    if (written < begin) return false;
    const Place& state = index_.place(update.value);
    return std::ranges::all_of(index_.values_in(state.storage), [&](ValueId v) {
      return std::ranges::all_of(draft_.reads[index_of(v)], [&](const Read& read) {
        if (read.moment < begin || read.moment > end) return true;
        const int until = draft_.timeline.needed_until(begin, read.moment);
        return until < written || (until == written && writes_over(written, update.next, state));
      });
    });
  }

  /// Whether the node of that moment makes the whole value at the place of `next`, and may overwrite the state with
  /// it.
  bool writes_over(int moment, ValueId next, const Place& state) const {
    const int position = draft_.timeline.moments()[static_cast<std::size_t>(moment)].node;
    if (position < 0) return false;
    return std::ranges::any_of(draft_.node(position).results, [&](ValueId out) {
      return index_.place(out) == index_.place(next) && index_.may_write_over(out, state);
    });
  }

  /// For a loop, or for an `if` given by its then and its else (if any).
  void place_results(RegionId region, RegionId otherwise) {
    for (const RegionResult& result : draft_.graph.region(region).results)
      if (!share_with_state(result, region, otherwise)) share_with_source(result, region, otherwise);
  }

  /// Places a result in a state that holds its value on both paths through the region. Only this region may change
  /// that state: otherwise the result of an earlier region, which has changed it already, is involved.
  bool share_with_state(const RegionResult& result, RegionId region, RegionId otherwise) {
    const bool is_old = is_state(result.from) && (result.otherwise == kNoValue || is_state(result.otherwise));
    std::vector<ValueId> candidates;
    for (const RegionId branch : {region, otherwise})
      if (branch != kNoRegion)
        for (const StateUpdate& update : updates_[index_of(branch)]) candidates.push_back(update.value);
    for (const ValueId source : {result.from, result.otherwise})
      if (source != kNoValue && !is_old)
        if (const auto known = states_.find(index_.place(source).storage); known != states_.end())
          candidates.push_back(known->second);
    const auto found = std::ranges::find_if(candidates, [&](ValueId state) {
      return holds(state, region, result.from) &&
             (result.otherwise == kNoValue || holds(state, otherwise, result.otherwise));
    });
    if (found == candidates.end()) return false;
    index_.move(result.value, index_.place(*found));
    return true;
  }

  bool is_state(ValueId v) const { return draft_.graph.value(v).kind == ValueKind::kState; }

  /// Whether `source` is the value of a state after `branch` has run; with kNoRegion nothing runs.
  bool holds(ValueId state, RegionId branch, ValueId source) const {
    if (branch != kNoRegion) {
      const std::vector<StateUpdate>& updates = updates_[index_of(branch)];
      const auto update = std::ranges::find(updates, state, &StateUpdate::value);
      if (update != updates.end()) return update->next == source;
    }
    return index_.place(source) == index_.place(state);
  }

  void share_with_source(const RegionResult& result, RegionId region, RegionId otherwise) {
    if (result.otherwise == kNoValue) {  // of a loop: an alias for the result of the last iteration
      if (!index_.owns_activation(result.from)) return;
      if (index_.owns_activation(result.value))
        index_.move(result.value, index_.place(result.from));
      else  // an output with its own storage is not moved
        index_.move(result.from, index_.place(result.value));
      return;
    }
    if (is_made_in(result.from, region)) index_.move(result.from, index_.place(result.value));
    if (otherwise != kNoRegion && is_made_in(result.otherwise, otherwise))
      index_.move(result.otherwise, index_.place(result.value));
  }

  /// Whether the values at the place of `v` are needed in `branch` only.
  bool is_made_in(ValueId v, RegionId branch) const {
    if (!index_.owns_activation(v)) return false;
    const Lifetime life = index_.lifetime(index_.place(v).storage);
    return life.first > draft_.timeline.begin(branch) && life.last <= draft_.timeline.end(branch);
  }

  const Draft& draft_;
  StorageIndex& index_;
  std::vector<std::vector<StateUpdate>> updates_;  // by region
  std::map<int, ValueId> states_;                  // by storage
};

}  // namespace

void place_region_ends(const Draft& draft, StorageIndex& index, bool arena) { RegionEnds(draft, index).place(arena); }

std::vector<Assignment> copies_at(const Graph& graph, const std::vector<Place>& places, const Moment& moment) {
  std::vector<Assignment> copies;
  for (const Assignment& it : assignments_at_end(graph, moment.region, moment.kind == Moment::Kind::kEnd)) {
    const Place& to = places[index_of(it.to)];
    const auto is_same = [&](const Assignment& copy) { return places[index_of(copy.to)] == to; };
    if (to != places[index_of(it.from)] && std::ranges::none_of(copies, is_same)) copies.push_back(it);
  }
  return copies;
}

std::vector<StorageCopy> in_order(std::vector<StorageCopy> copies, int spare) {
  std::vector<StorageCopy> ordered;
  while (!copies.empty()) {
    const auto ready = std::ranges::find_if(copies, [&](const StorageCopy& copy) {
      return std::ranges::none_of(
          copies, [&](const StorageCopy& other) { return other.index != copy.index && other.from == copy.to; });
    });
    if (ready != copies.end()) {
      ordered.push_back(*ready);
      copies.erase(ready);
      continue;
    }
    ordered.push_back({.to = spare, .from = copies.front().from, .index = copies.front().index});
    copies.front().from = spare++;
  }
  return ordered;
}

}  // namespace headroom
