#include "plan/views.hpp"

#include <algorithm>
#include <vector>

#include "plan/view_ops.hpp"

namespace headroom {
namespace {

/// Whether a view of `root` still holds what it held when it was made, wherever it is read. Only states change: a view
/// made in the region that changes the state is gone when that happens, one made before it must not be read from there
/// on.
bool keeps_content(const Draft& draft, ValueId view, ValueId root) {
  if (draft.graph.value(root).kind != ValueKind::kState) return true;
  const int made = draft.made[index_of(view)];
  return std::ranges::all_of(draft.graph.state_updates(), [&](const StateUpdate& update) {
    const int begin = draft.timeline.begin(update.region);
    return update.value != root || made > begin || draft.needed_until(view, made) < begin;
  });
}

}  // namespace

void place_views(Draft& draft, bool arena) {
  for (std::size_t i = 0; i < draft.chosen.size(); ++i) {
    const Node& node = draft.node(static_cast<int>(i));
    if (draft.elided[i] || !(arena ? is_view(node.op) : node.op == Op::kReshape)) continue;
    const ValueId operand = node.inputs[0];
    const ValueId view = node.results[0];
    if (draft.is_linked(view) || draft.is_copied[index_of(view)]) continue;  // what is copied has a storage of its own
    const Draft::Link root = draft.root_of(operand);
    const Shape& from = draft.strides[index_of(operand)];
    const auto at = view_strides(draft.graph, node, from);
    const std::size_t offset = view_offset(draft.graph, node, from);
    if (!at || !draft.readers_accept(view, *at, root.offset + offset)) continue;
    if (!keeps_content(draft, view, root.base)) continue;
    draft.strides[index_of(view)] = *at;
    draft.links[index_of(view)] = {operand, offset};
    draft.elided[i] = true;
  }
}

}  // namespace headroom
