#include "plan/storage_index.hpp"

#include <algorithm>
#include <limits>

#include "plan/strides.hpp"

namespace headroom {
namespace {

StorageKind kind_of(ValueKind kind) {
  if (kind == ValueKind::kInput) return StorageKind::kInput;
  if (kind == ValueKind::kState) return StorageKind::kState;
  return kind == ValueKind::kCounter ? StorageKind::kCounter : StorageKind::kArena;
}

}  // namespace

StorageIndex::StorageIndex(const Draft& draft, bool outputs_apart) : draft_(draft), places_(draft.graph.value_count()) {
  const auto is_placed = [&](std::size_t v) {
    const ValueKind kind = draft.graph.value(ValueId(v)).kind;
    const bool is_result = kind == ValueKind::kResult || kind == ValueKind::kRegionResult;
    if (draft.is_weight[v] || (is_result && draft.made[v] < 0)) return false;  // no node makes it
    return kind != ValueKind::kCounter || !draft.reads[v].empty();
  };
  for (std::size_t v = 0; v < places_.size(); ++v) {
    if (!is_placed(v) || draft.is_linked(ValueId(v))) continue;
    places_[v].storage = static_cast<int>(storages_.size());
    storages_.push_back({.kind = kind_of(draft.graph.value(ValueId(v)).kind), .bytes = draft.bytes[v]});
  }
  if (outputs_apart)
    for (const Output& output : draft.graph.outputs())
      if (const int s = places_[index_of(output.value)].storage; s >= 0 && storage(s).kind == StorageKind::kArena)
        storages_[static_cast<std::size_t>(s)].kind = StorageKind::kOutput;
  values_.resize(storages_.size());
  lifetimes_.resize(storages_.size());
  for (std::size_t v = 0; v < places_.size(); ++v) {
    if (!is_placed(v)) continue;
    const Draft::Link root = draft.root_of(ValueId(v));
    places_[v] = {places_[index_of(root.base)].storage, root.offset, draft.strides[v]};
    values_[static_cast<std::size_t>(places_[v].storage)].push_back(ValueId(v));
  }
}

Lifetime StorageIndex::lifetime(int s) const {
  std::optional<Lifetime>& known = lifetimes_[static_cast<std::size_t>(s)];
  if (known) return *known;
  Lifetime life{.first = std::numeric_limits<int>::max(), .last = -1};
  for (const ValueId v : values_in(s)) life.first = std::min(life.first, draft_.made[index_of(v)]);
  for (const ValueId v : values_in(s)) {
    life.last = std::max(life.last, draft_.made[index_of(v)]);
    for (const Read& read : draft_.reads[index_of(v)])
      life.last = std::max(life.last, draft_.timeline.needed_until(life.first, read.moment));
  }
  known = life;
  return life;
}

bool StorageIndex::owns_activation(ValueId v) const {
  const Place& at = place(v);
  return at.storage >= 0 && storage(at.storage).kind == StorageKind::kArena && !draft_.is_linked(v) &&
         !draft_.is_followed(v) && storage(at.storage).bytes == draft_.graph.type(v).bytes() && at.offset_bytes == 0;
}

bool StorageIndex::fits(ValueId v, const Shape& strides, std::size_t offset) const {
  const auto launches = [&](int node) { return node >= 0 && !draft_.elided[static_cast<std::size_t>(node)]; };
  if (draft_.is_copied[index_of(v)] && !are_dense(draft_.graph.type(v), strides)) return false;
  if (launches(draft_.maker[index_of(v)]) && !draft_.maker_accepts(v, strides, offset)) return false;
  return std::ranges::all_of(draft_.reads[index_of(v)], [&](const Read& read) {
    return !launches(read.node) || draft_.kernel_accepts(read, v, strides, offset);
  });
}

bool StorageIndex::may_write_over(ValueId out, const Place& target) const {
  const int position = draft_.maker[index_of(out)];
  const ChosenKernel& choice = draft_.chosen[static_cast<std::size_t>(position)];
  const Node& node = draft_.node(position);
  if (draft_.elided[static_cast<std::size_t>(position)]) return false;
  const auto result = std::ranges::find(node.results, out) - node.results.begin();
  for (std::size_t k = 0; k < node.inputs.size(); ++k) {
    const Place& operand = place(node.inputs[k]);
    if (operand.storage != target.storage) continue;
    const bool is_same = operand == target && draft_.graph.type(node.inputs[k]) == draft_.graph.type(out);
    if (!is_same || !choice.kernel->may_overwrite(choice.spec, static_cast<int>(k), static_cast<int>(result)))
      return false;
  }
  return true;
}

void StorageIndex::move(ValueId v, const Place& target) {
  const Place to = target;
  std::vector<ValueId>& moved = values_[static_cast<std::size_t>(place(v).storage)];
  std::vector<ValueId>& others = values_[static_cast<std::size_t>(to.storage)];
  lifetimes_[static_cast<std::size_t>(place(v).storage)].reset();
  lifetimes_[static_cast<std::size_t>(to.storage)].reset();
  for (const ValueId value : moved) {
    places_[index_of(value)].storage = to.storage;
    places_[index_of(value)].offset_bytes += to.offset_bytes;
    others.push_back(value);
  }
  moved.clear();
  places_[index_of(v)].strides = to.strides;
}

void StorageIndex::finish(std::vector<Storage>& storages, std::vector<Place>& places,
                          std::vector<Lifetime>& lifetimes) const {
  places = places_;
  for (std::size_t s = 0; s < storages_.size(); ++s) {
    if (values_[s].empty()) continue;
    for (const ValueId v : values_[s]) places[index_of(v)].storage = static_cast<int>(storages.size());
    storages.push_back(storages_[s]);
    lifetimes.push_back(lifetime(static_cast<int>(s)));
  }
}

}  // namespace headroom
