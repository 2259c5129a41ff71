#include "plan/draft.hpp"

#include <algorithm>

#include "ir/op_definition.hpp"
#include "plan/strides.hpp"

namespace headroom {

Draft::Draft(const Graph& of, const std::vector<ChosenKernel>& kernels, const std::vector<bool>& weights)
    : graph(of),
      chosen(kernels),
      is_weight(weights),
      timeline(of, kernels),
      maker(of.value_count(), -1),
      made(of.value_count(), -1),
      reads(of.value_count()),
      is_copied(of.value_count(), false),
      links(of.value_count()),
      elided(kernels.size(), false) {
  for (std::size_t v = 0; v < graph.value_count(); ++v) {
    const TensorType& type = graph.type(ValueId(v));
    strides.push_back(dense_operand(type).strides);
    bytes.push_back(type.bytes());
  }
  find_makers_and_reads();
}

void Draft::find_makers_and_reads() {
  const auto copy = [&](ValueId v, int moment) {
    reads[index_of(v)].push_back({.moment = moment});
    is_copied[index_of(v)] = true;
  };
  for (int at = 0; at < timeline.after_all(); ++at) {
    const Moment& moment = timeline.moments()[static_cast<std::size_t>(at)];
    const Region& region = graph.region(moment.region);
    if (moment.kind == Moment::Kind::kNode) {
      const Node& runs = node(moment.node);
      for (std::size_t k = 0; k < runs.inputs.size(); ++k)
        reads[index_of(runs.inputs[k])].push_back({at, moment.node, static_cast<int>(k)});
      for (const ValueId result : runs.results) {
        maker[index_of(result)] = moment.node;
        made[index_of(result)] = at;
      }
    } else if (moment.kind == Moment::Kind::kBegin) {
      if (region.counter != kNoValue) made[index_of(region.counter)] = at;
      if (region.predicate != kNoValue) reads[index_of(region.predicate)].push_back({.moment = at});
    } else {
      for (const Assignment& assignment : assignments_at_end(graph, moment.region, moment.kind == Moment::Kind::kEnd)) {
        copy(assignment.from, at);
        if (graph.value(assignment.to).kind != ValueKind::kRegionResult) continue;
        if (int& first = made[index_of(assignment.to)]; first < 0)
          first = at;
        else
          reads[index_of(assignment.to)].push_back({.moment = at});  // it is written there too
      }
    }
  }
  for (const Output& output : graph.outputs()) copy(output.value, timeline.after_all());
}

void Draft::place(ValueId v, const Link& link, const Shape& at) {
  links[index_of(v)] = link;
  strides[index_of(v)] = normalized_strides(graph.type(v), at);
}

Draft::Link Draft::root_of(ValueId v) const {
  Link root{v, 0};
  while (is_linked(root.base)) {
    const Link& link = links[index_of(root.base)];
    root = {link.base, root.offset + link.offset};
  }
  return root;
}

bool Draft::kernel_accepts(const Read& read, ValueId v, const Shape& at, std::size_t offset) const {
  const ChosenKernel& choice = chosen[static_cast<std::size_t>(read.node)];
  return satisfies(choice.kernel->input_strides(choice.spec, read.input), graph.type(v), at, offset);
}

bool Draft::readers_accept(ValueId v, const Shape& at, std::size_t offset, int except) const {
  if (is_copied[index_of(v)] && !are_dense(graph.type(v), at)) return false;
  return std::ranges::all_of(reads[index_of(v)], [&](const Read& read) {
    if (read.node < 0 || read.node == except) return true;
    const Node& reader = node(read.node);
    // If the result has a place elsewhere, it is no view of `v`, but a copy.
    if (!is_view(reader.op) || is_linked(reader.results[0])) return kernel_accepts(read, v, at, offset);
    const std::optional<View> view = view_over(graph, reader, at);
    return view && readers_accept(reader.results[0], view->strides, offset + view->offset);
  });
}

bool Draft::maker_accepts(ValueId v, const Shape& at, std::size_t offset) const {
  const int position = maker[index_of(v)];
  const ChosenKernel& choice = chosen[static_cast<std::size_t>(position)];
  const auto slot = std::ranges::find(node(position).results, v) - node(position).results.begin();
  return satisfies(choice.kernel->output_strides(choice.spec, static_cast<int>(slot)), graph.type(v), at, offset);
}

bool Draft::is_natural_view(const Node& view_op) const {
  const auto view = view_over(graph, view_op, dense_operand(graph.type(view_op.inputs[0])).strides);
  return view && readers_accept(view_op.results[0], view->strides, view->offset);
}

int Draft::needed_until(ValueId v, int first) const {
  int last = made[index_of(v)];
  for (const Read& read : reads[index_of(v)]) {
    last = std::max(last, timeline.needed_until(first, read.moment));
    if (read.node >= 0 && is_view(node(read.node).op))
      last = std::max(last, needed_until(node(read.node).results[0], first));
  }
  return last;
}

}  // namespace headroom
