#include "plan/placement.hpp"

#include <algorithm>
#include <utility>

#include "plan/region_ends.hpp"
#include "plan/views.hpp"

namespace headroom {
namespace {

/// Whether the result `out` can be written at `target`, at the moment `now`.
bool can_overwrite(const StorageIndex& index, int now, ValueId out, const Place& target) {
  if (target.storage < 0 || index.storage(target.storage).kind != StorageKind::kArena) return false;
  const Place& own = index.place(out);
  // Their lifetimes must not overlap: neither later values at the target nor earlier values in the result's own
  // storage.
  if (index.lifetime(target.storage).last > now || index.lifetime(own.storage).first < now) return false;
  if (!index.may_write_over(out, target)) return false;
  const std::span<const ValueId> moved = index.values_in(own.storage);
  if (own.strides != target.strides && moved.size() > 1) return false;  // views of it have their strides
  return std::ranges::all_of(moved, [&](ValueId v) {
    const Place& at = index.place(v);
    return index.fits(v, v == out ? target.strides : at.strides, at.offset_bytes + target.offset_bytes);
  });
}

/// In place: a result overwrites an operand that is no longer needed, if the kernel allows it. Another result of the
/// node may have overwritten that operand already.
void overwrite_operands(const Draft& draft, StorageIndex& index) {
  for (std::size_t i = 0; i < draft.chosen.size(); ++i) {
    if (draft.elided[i]) continue;
    const Node& node = draft.node(static_cast<int>(i));
    for (const ValueId out : node.results) {
      if (!index.owns_activation(out)) continue;
      const auto operand = std::ranges::find_if(node.inputs, [&](ValueId in) {
        const Place& target = index.place(in);
        return draft.graph.type(in) == draft.graph.type(out) &&
               can_overwrite(index, draft.timeline.of_node(i), out, target) &&
               std::ranges::none_of(node.results,
                                    [&](ValueId other) { return index.place(other).storage == target.storage; });
      });
      if (operand != node.inputs.end()) index.move(out, index.place(*operand));
    }
  }
}

}  // namespace

Placements place_values(const Graph& graph, const std::vector<ChosenKernel>& chosen, const std::vector<bool>& is_weight,
                        const PlacementOptions& options) {
  Draft draft(graph, chosen, is_weight);
  if (options.arena) place_inside(draft);
  place_views(draft, options.arena);
  StorageIndex index(draft, options.outputs_apart);
  // First, because these have one possible place; an operand to overwrite can be found elsewhere.
  place_region_ends(draft, index, options.arena);
  if (options.arena) overwrite_operands(draft, index);
  Placements placements{.timeline = draft.timeline, .elided = draft.elided};
  index.finish(placements.storages, placements.places, placements.lifetimes);
  return placements;
}

}  // namespace headroom
