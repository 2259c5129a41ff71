#include "plan/inside.hpp"

#include <algorithm>
#include <vector>

#include "plan/joined.hpp"
#include "plan/strides.hpp"
#include "plan/view_ops.hpp"

namespace headroom {
namespace {

/// Whether the node that makes `v` can write it at these strides, so many bytes into its storage; `reader` is the node
/// that asks. What would be a view in any case makes way only where its operand can be written there too: it must not
/// become a copy.
bool can_write_at(const Draft& draft, ValueId v, const Shape& at, std::size_t offset, int reader) {
  const int position = draft.maker[index_of(v)];
  if (position < 0 || draft.is_linked(v) || draft.is_followed(v) || draft.is_copied[index_of(v)]) return false;
  const Node& maker = draft.node(position);
  if (maker.region != draft.node(reader).region || maker.op == Op::kSlice) return false;
  if (!draft.readers_accept(v, at, offset, reader)) return false;
  if (!is_view(maker.op) || !draft.is_natural_view(maker)) return draft.maker_accepts(v, at, offset);
  const auto operand = operand_strides(draft.graph, maker, at);
  return operand && can_write_at(draft, maker.inputs[0], *operand, offset, position);
}

/// Lets the kernels that make the parts write them where the whole lies; returns whether all of them can.
bool place_parts(Draft& draft, int position) {
  const Node& concat = draft.node(position);
  const ValueId whole = concat.results[0];
  const Shape at = draft.strides[index_of(whole)];
  const auto axis = static_cast<int>(concat.attributes.get_int("axis"));
  const std::size_t step = static_cast<std::size_t>(at[axis]) * size_of(draft.graph.type(whole).dtype);
  const std::size_t start = draft.root_of(whole).offset;
  std::vector<std::size_t> offsets;  // of the parts in the whole
  std::size_t offset = 0;
  for (const ValueId part : concat.inputs) {
    if (std::ranges::count(concat.inputs, part) > 1) return false;
    if (!can_write_at(draft, part, at, start + offset, position)) return false;
    offsets.push_back(offset);
    offset += static_cast<std::size_t>(draft.graph.type(part).shape[axis]) * step;
  }
  for (std::size_t k = 0; k < offsets.size(); ++k) {
    const ValueId part = concat.inputs[k];
    draft.strides[index_of(part)] = normalized_strides(draft.graph.type(part).shape, at);
    draft.links[index_of(part)] = {whole, offsets[k]};
  }
  draft.elided[static_cast<std::size_t>(position)] = true;
  return true;
}

/// Lets the kernel that makes what a node rearranges write it where it belongs, unless a view will do.
void place_operand(Draft& draft, int position) {
  const Node& node = draft.node(position);
  const ValueId result = node.results[0];
  if (!draft.is_linked(result) && draft.is_natural_view(node)) return;
  const auto at = operand_strides(draft.graph, node, draft.strides[index_of(result)]);
  if (!at || !can_write_at(draft, node.inputs[0], *at, draft.root_of(result).offset, position)) return;
  draft.strides[index_of(node.inputs[0])] = *at;
  draft.links[index_of(node.inputs[0])] = {result, 0};
  draft.elided[static_cast<std::size_t>(position)] = true;
}

}  // namespace

void place_inside(Draft& draft) {
  // Last to first, so that a place inside a place is known when its parts are looked at.
  for (int i = static_cast<int>(draft.chosen.size()) - 1; i >= 0; --i) {
    const Op op = draft.node(i).op;
    if (op == Op::kConcat && !place_parts(draft, i)) join_rows(draft, i);
    if (op == Op::kReshape || op == Op::kTranspose) place_operand(draft, i);
  }
}

}  // namespace headroom
