#include "plan/views.hpp"

#include <algorithm>
#include <optional>
#include <vector>

#include "ir/op_definition.hpp"
#include "plan/strides.hpp"

namespace headroom {
namespace {

/// Whether a view of `root` still has its original content at every read. Only states change. A view made in the
/// region that changes the state is dead at that point; one made before must not be read after it.
bool keeps_content(const Draft& draft, ValueId view, ValueId root) {
  if (draft.graph.value(root).kind != ValueKind::kState) return true;
  const int made = draft.made[index_of(view)];
  return std::ranges::all_of(draft.graph.state_updates(), [&](const StateUpdate& update) {
    const int begin = draft.timeline.begin(update.region);
    return update.value != root || made > begin || draft.needed_until(view, made) < begin;
  });
}

/// Whether the node that makes `v` can write it with these strides, at this offset in its storage; `reader` is the
/// node that asks. If `v` is a natural view, its operand must be writable there too: the view must not become a copy.
bool can_write_at(const Draft& draft, ValueId v, const Shape& at, std::size_t offset, int reader) {
  if (!draft.may_be_placed(v)) return false;
  const int position = draft.maker[index_of(v)];
  const Node& maker = draft.node(position);
  if (maker.region != draft.node(reader).region || maker.op == Op::kSlice) return false;
  if (!draft.readers_accept(v, at, offset, reader)) return false;
  if (!is_view(maker.op) || !draft.is_natural_view(maker)) return draft.maker_accepts(v, at, offset);
  const auto operand = operand_strides(draft.graph, maker, at);
  return operand && can_write_at(draft, maker.inputs[0], *operand, offset, position);
}

/// The value written by a kernel of which `v` would be a view.
ValueId written_value(const Draft& draft, ValueId v) {
  const int position = draft.maker[index_of(v)];
  if (position < 0 || !is_view(draft.node(position).op) || !draft.is_natural_view(draft.node(position))) return v;
  return written_value(draft, draft.node(position).inputs[0]);
}

/// Lets the kernels that make the parts write them directly into the whole. Returns whether all of them can.
bool place_parts(Draft& draft, int position) {
  const Node& concat = draft.node(position);
  const ValueId whole = concat.results[0];
  const Shape at = draft.strides[index_of(whole)];
  const auto axis = static_cast<int>(concat.attributes[attr::kAxis]);
  const std::size_t step = static_cast<std::size_t>(at[axis]) * size_of(draft.graph.type(whole).dtype);
  const std::size_t start = draft.root_of(whole).offset;
  std::vector<std::size_t> offsets;  // of the parts in the whole
  std::vector<ValueId> written;      // each to one place
  std::size_t offset = 0;
  for (const ValueId part : concat.inputs) {
    written.push_back(written_value(draft, part));
    if (std::ranges::count(written, written.back()) > 1) return false;
    if (!can_write_at(draft, part, at, start + offset, position)) return false;
    offsets.push_back(offset);
    offset += static_cast<std::size_t>(draft.graph.type(part).shape[axis]) * step;
  }
  for (std::size_t k = 0; k < offsets.size(); ++k) draft.place(concat.inputs[k], {whole, offsets[k]}, at);
  draft.elided[static_cast<std::size_t>(position)] = true;
  return true;
}

/// Lets the kernel that makes the operand of a rearranging node write it directly in the final arrangement, unless a
/// view is enough. Copied values are excluded, because they have storages of their own.
void place_operand(Draft& draft, int position) {
  const Node& node = draft.node(position);
  const ValueId result = node.results[0];
  if (!draft.is_linked(result) && !draft.is_copied[index_of(result)] && draft.is_natural_view(node)) return;
  const auto at = operand_strides(draft.graph, node, draft.strides[index_of(result)]);
  if (!at || !can_write_at(draft, node.inputs[0], *at, draft.root_of(result).offset, position)) return;
  draft.place(node.inputs[0], {result, 0}, *at);
  draft.elided[static_cast<std::size_t>(position)] = true;
}

/// A value as elements of `root`, which a kernel writes densely; offsets count from the start of their storage.
struct ViewOfRoot : View {
  ValueId root = kNoValue;
};

/// `v` as a view of a value that a kernel writes `start` bytes into a storage. Nothing if a reader in between needs a
/// copy, or a value in between already has a place.
std::optional<ViewOfRoot> view_of_root(const Draft& draft, ValueId v, std::size_t start) {
  if (!draft.may_be_placed(v)) return std::nullopt;
  const Node& maker = draft.node(draft.maker[index_of(v)]);
  if (!is_view(maker.op)) {
    const Shape& dense = draft.strides[index_of(v)];
    const bool kernels_accept = std::ranges::all_of(draft.reads[index_of(v)], [&](const Read& read) {
      return read.node < 0 || is_view(draft.node(read.node).op) || draft.kernel_accepts(read, v, dense, start);
    });
    if (!kernels_accept || !draft.maker_accepts(v, dense, start)) return std::nullopt;
    return ViewOfRoot{{dense, start}, v};
  }
  const std::optional<ViewOfRoot> operand = view_of_root(draft, maker.inputs[0], start);
  if (!operand) return std::nullopt;
  const std::optional<View> view = view_over(draft.graph, maker, operand->strides);
  if (!view || !draft.readers_accept(v, view->strides, operand->offset + view->offset)) return std::nullopt;
  return ViewOfRoot{{view->strides, operand->offset + view->offset}, operand->root};
}

/// Strides at which a concatenation contains its parts in their present places, or nothing.
std::optional<Shape> strides_of_whole(const Graph& graph, const Node& concat, const std::vector<ViewOfRoot>& parts) {
  const auto axis = static_cast<int>(concat.attributes[attr::kAxis]);
  const auto shape_of = [&](std::size_t k) -> const Shape& { return graph.type(concat.inputs[k]).shape; };
  if (parts.size() < 2) return std::nullopt;
  const auto size = static_cast<std::int64_t>(size_of(graph.type(concat.results[0]).dtype));
  const auto between = static_cast<std::int64_t>(parts[1].offset - parts[0].offset);
  Shape at = parts[0].strides;
  at.set(axis, between / (size * shape_of(0)[axis]));
  auto offset = static_cast<std::int64_t>(parts[0].offset);
  for (std::size_t k = 0; k < parts.size(); ++k) {
    if (static_cast<std::int64_t>(parts[k].offset) != offset) return std::nullopt;
    if (parts[k].strides != normalized_strides(graph.type(concat.inputs[k]), at)) return std::nullopt;
    offset += shape_of(k)[axis] * at[axis] * size;
  }
  return normalized_strides(graph.type(concat.results[0]), at);
}

/// Joins rows; see views.hpp.
void join_rows(Draft& draft, int concat) {
  const Node& node = draft.node(concat);
  const ValueId whole = node.results[0];
  if (draft.is_linked(whole) || draft.is_copied[index_of(whole)]) return;
  std::vector<ViewOfRoot> parts;  // in the joint storage
  std::vector<std::size_t> starts;
  std::size_t end = 0;
  for (const ValueId input : node.inputs) {
    const std::optional<ViewOfRoot> part = view_of_root(draft, input, end);
    if (!part || std::ranges::count(parts, part->root, &ViewOfRoot::root) > 0) return;
    if (draft.node(draft.maker[index_of(part->root)]).region != node.region) return;
    starts.push_back(end);
    end += draft.bytes[index_of(part->root)];
    parts.push_back(*part);
  }
  const std::optional<Shape> at = strides_of_whole(draft.graph, node, parts);
  if (!at || !draft.readers_accept(whole, *at, parts.front().offset)) return;

  const ValueId first = parts.front().root;
  for (std::size_t k = 1; k < parts.size(); ++k) draft.links[index_of(parts[k].root)] = {first, starts[k]};
  draft.bytes[index_of(first)] = end;
  draft.place(whole, {first, parts.front().offset}, *at);
  draft.elided[static_cast<std::size_t>(concat)] = true;
}

}  // namespace

void place_inside(Draft& draft) {
  // In reverse order, so that the place of an outer value is known before its parts are placed.
  for (int i = static_cast<int>(draft.chosen.size()) - 1; i >= 0; --i) {
    const Op op = draft.node(i).op;
    if (op == Op::kConcat && !place_parts(draft, i)) join_rows(draft, i);
    if (op == Op::kReshape || op == Op::kTranspose) place_operand(draft, i);
  }
}

void place_views(Draft& draft, bool arena) {
  for (std::size_t i = 0; i < draft.chosen.size(); ++i) {
    const Node& node = draft.node(static_cast<int>(i));
    if (draft.elided[i] || !(arena ? is_view(node.op) : node.op == Op::kReshape)) continue;
    const ValueId operand = node.inputs[0];
    const ValueId result = node.results[0];
    if (draft.is_linked(result) || draft.is_copied[index_of(result)])
      continue;  // copied values have storages of their own
    const Draft::Link root = draft.root_of(operand);
    const std::optional<View> over = view_over(draft.graph, node, draft.strides[index_of(operand)]);
    if (!over || !draft.readers_accept(result, over->strides, root.offset + over->offset)) continue;
    if (!keeps_content(draft, result, root.base)) continue;
    draft.place(result, {operand, over->offset}, over->strides);
    draft.elided[i] = true;
  }
}

}  // namespace headroom
