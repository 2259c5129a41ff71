#include "plan/joined.hpp"

#include <algorithm>
#include <optional>
#include <vector>

#include "plan/strides.hpp"
#include "plan/view_ops.hpp"

namespace headroom {
namespace {

/// A value as elements of `root`, which a kernel writes densely.
struct View {
  ValueId root;
  std::size_t offset;  // in bytes
  Shape strides;
};

/// `v` as a view of what a kernel writes `start` bytes into a storage; nothing where a reader on the way needs a copy,
/// or something on it has a place already.
std::optional<View> view_of_root(const Draft& draft, ValueId v, std::size_t start) {
  const int position = draft.maker[index_of(v)];
  if (position < 0 || draft.is_linked(v) || draft.is_followed(v) || draft.is_copied[index_of(v)]) return std::nullopt;
  const Node& maker = draft.node(position);
  if (!is_view(maker.op)) {
    const Shape& dense = draft.strides[index_of(v)];
    const bool kernels_accept = std::ranges::all_of(draft.reads[index_of(v)], [&](const Read& read) {
      return read.node < 0 || is_view(draft.node(read.node).op) || draft.kernel_accepts(read, v, dense, start);
    });
    if (!kernels_accept || !draft.maker_accepts(v, dense, start)) return std::nullopt;
    return View{.root = v, .offset = start, .strides = dense};
  }
  std::optional<View> view = view_of_root(draft, maker.inputs[0], start);
  if (!view) return std::nullopt;
  const auto at = view_strides(draft.graph, maker, view->strides);
  if (!at) return std::nullopt;
  view->offset += view_offset(draft.graph, maker, view->strides);
  view->strides = *at;
  if (!draft.readers_accept(v, *at, view->offset)) return std::nullopt;
  return view;
}

/// Strides at which a concatenation holds its parts where they lie, or nothing.
std::optional<Shape> strides_of_whole(const Graph& graph, const Node& concat, const std::vector<View>& parts) {
  const auto axis = static_cast<int>(concat.attributes.get_int("axis"));
  const auto shape_of = [&](std::size_t k) -> const Shape& { return graph.type(concat.inputs[k]).shape; };
  if (parts.size() < 2) return std::nullopt;
  const auto size = static_cast<std::int64_t>(size_of(graph.type(concat.results[0]).dtype));
  const auto between = static_cast<std::int64_t>(parts[1].offset - parts[0].offset);
  Shape at = parts[0].strides;
  at.set(axis, between / (size * shape_of(0)[axis]));
  auto offset = static_cast<std::int64_t>(parts[0].offset);
  for (std::size_t k = 0; k < parts.size(); ++k) {
    if (static_cast<std::int64_t>(parts[k].offset) != offset) return std::nullopt;
    if (parts[k].strides != normalized_strides(shape_of(k), at)) return std::nullopt;
    offset += shape_of(k)[axis] * at[axis] * size;
  }
  return normalized_strides(graph.type(concat.results[0]).shape, at);
}

}  // namespace

void join_rows(Draft& draft, int concat) {
  const Node& node = draft.node(concat);
  const ValueId whole = node.results[0];
  if (draft.is_linked(whole) || draft.is_copied[index_of(whole)]) return;
  std::vector<View> parts;  // in the joint storage
  std::vector<std::size_t> starts;
  std::size_t end = 0;
  for (const ValueId input : node.inputs) {
    const std::optional<View> part = view_of_root(draft, input, end);
    if (!part || std::ranges::count(parts, part->root, &View::root) > 0) return;
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
  draft.strides[index_of(whole)] = *at;
  draft.links[index_of(whole)] = {first, parts.front().offset};
  draft.elided[static_cast<std::size_t>(concat)] = true;
}

}  // namespace headroom
