#include "plan/draft.hpp"

#include <algorithm>

#include "plan/strides.hpp"
#include "plan/view_ops.hpp"

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
    strides.push_back(row_major_strides(type.shape));
    bytes.push_back(type.bytes());
  }
  find_makers();
  find_reads();
}

void Draft::find_makers() {
  for (std::size_t i = 0; i < chosen.size(); ++i)
    for (const ValueId result : node(static_cast<int>(i)).results) {
      maker[index_of(result)] = static_cast<int>(i);
      made[index_of(result)] = timeline.of_node(i);
    }
  for (std::size_t r = 0; r < graph.regions().size(); ++r) {
    const auto id = static_cast<RegionId>(r);
    const Region& region = graph.region(id);
    if (region.counter != kNoValue) made[index_of(region.counter)] = timeline.begin(id);
    for (const RegionResult& result : region.results) made[index_of(result.value)] = timeline.end(id);
  }
}

void Draft::find_reads() {
  for (std::size_t i = 0; i < chosen.size(); ++i) {
    const std::vector<ValueId>& inputs = node(static_cast<int>(i)).inputs;
    for (std::size_t k = 0; k < inputs.size(); ++k)
      reads[index_of(inputs[k])].push_back({timeline.of_node(i), static_cast<int>(i), static_cast<int>(k)});
  }
  const auto copy = [&](ValueId v, int moment) {
    reads[index_of(v)].push_back({.moment = moment});
    is_copied[index_of(v)] = true;
  };
  for (std::size_t r = 0; r < graph.regions().size(); ++r) {
    const auto id = static_cast<RegionId>(r);
    const Region& region = graph.region(id);
    if (region.predicate != kNoValue) reads[index_of(region.predicate)].push_back({.moment = timeline.begin(id)});
    for (const RegionResult& result : region.results) {
      copy(result.from, timeline.end(id));
      if (result.otherwise == kNoValue) continue;
      copy(result.otherwise, timeline.otherwise(id));
      reads[index_of(result.value)].push_back({.moment = timeline.otherwise(id)});  // it is written there too
    }
  }
  for (const StateUpdate& update : graph.state_updates()) copy(update.next, timeline.end(update.region));
  for (const Output& output : graph.outputs()) copy(output.value, timeline.after_all());
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
  if (is_copied[index_of(v)] && !are_dense(graph.type(v).shape, at)) return false;
  return std::ranges::all_of(reads[index_of(v)], [&](const Read& read) {
    if (read.node < 0 || read.node == except) return true;
    const Node& reader = node(read.node);
    if (!is_view(reader.op)) return kernel_accepts(read, v, at, offset);
    const auto view = view_strides(graph, reader, at);
    return view && readers_accept(reader.results[0], *view, offset + view_offset(graph, reader, at));
  });
}

bool Draft::maker_accepts(ValueId v, const Shape& at, std::size_t offset) const {
  const int position = maker[index_of(v)];
  const ChosenKernel& choice = chosen[static_cast<std::size_t>(position)];
  const auto slot = std::ranges::find(node(position).results, v) - node(position).results.begin();
  return satisfies(choice.kernel->output_strides(choice.spec, static_cast<int>(slot)), graph.type(v), at, offset);
}

bool Draft::is_natural_view(const Node& view_op) const {
  const Shape dense = row_major_strides(graph.type(view_op.inputs[0]).shape);
  const auto view = view_strides(graph, view_op, dense);
  return view && readers_accept(view_op.results[0], *view, view_offset(graph, view_op, dense));
}

int Draft::needed_until(ValueId v, int first) const {
  int last = made[index_of(v)];
  for (const Read& read : reads[index_of(v)]) {
    last = std::max(last, timeline.loops().needed_until(first, read.moment));
    if (read.node >= 0 && is_view(node(read.node).op))
      last = std::max(last, needed_until(node(read.node).results[0], first));
  }
  return last;
}

}  // namespace headroom
