#include "plan/placement.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include "plan/strides.hpp"

namespace headroom {
namespace {

bool is_view_op(Op op) { return op == Op::kReshape || op == Op::kTranspose || op == Op::kSlice; }

/// Strides of a view op's result over an operand with these strides, or nothing where the view needs a copy.
std::optional<Shape> view_strides(const Graph& graph, const Node& node, const Shape& input_strides) {
  const Shape& from = graph.type(node.inputs[0]).shape;
  const Shape& to = graph.type(node.results[0]).shape;
  switch (node.op) {
    case Op::kReshape:
      return reshape_strides(from, input_strides, to);
    case Op::kSlice:
      return normalized_strides(to, input_strides);
    case Op::kTranspose: {
      Shape strides = to;
      const auto& perm = node.attributes.get_ints("perm");
      for (int axis = 0; axis < to.rank(); ++axis)
        strides.set(axis, input_strides[static_cast<int>(perm[static_cast<std::size_t>(axis)])]);
      return normalized_strides(to, strides);
    }
    default:
      return std::nullopt;
  }
}

/// Where a view op's result begins in its operand with these strides, in elements.
std::int64_t view_offset(const Node& node, const Shape& input_strides) {
  if (node.op != Op::kSlice) return 0;
  return node.attributes.get_int("start") * input_strides[static_cast<int>(node.attributes.get_int("axis"))];
}

/// The inverse: strides of the operand such that the result lies at these strides.
std::optional<Shape> operand_strides(const Graph& graph, const Node& node, const Shape& result_strides) {
  const Shape& from = graph.type(node.inputs[0]).shape;
  const Shape& to = graph.type(node.results[0]).shape;
  if (node.op == Op::kReshape) return reshape_strides(to, result_strides, from);
  if (node.op != Op::kTranspose) return std::nullopt;
  Shape strides = from;
  const auto& perm = node.attributes.get_ints("perm");
  for (int axis = 0; axis < to.rank(); ++axis)
    strides.set(static_cast<int>(perm[static_cast<std::size_t>(axis)]), result_strides[axis]);
  return normalized_strides(from, strides);
}

class Placer {
 public:
  Placer(const Graph& graph, const std::vector<ChosenKernel>& chosen, const std::vector<bool>& is_weight)
      : graph_(graph),
        chosen_(chosen),
        is_weight_(is_weight),
        position_(graph.value_count(), -1),
        uses_(graph.value_count()),
        pinned_(graph.value_count(), false),
        links_(graph.value_count()),
        strides_(graph.value_count()),
        elements_(graph.value_count()) {
    result_.elided.assign(chosen.size(), false);
    result_.state_in_place.assign(graph.state_updates().size(), false);
    for (int i = 0; i < static_cast<int>(chosen.size()); ++i) {
      const Node& node = node_at(i);
      for (const ValueId out : node.results) position_[index_of(out)] = i;
      for (std::size_t k = 0; k < node.inputs.size(); ++k)
        uses_[index_of(node.inputs[k])].push_back({i, static_cast<int>(k)});
    }
    for (const Output& output : graph.outputs()) pinned_[index_of(output.value)] = true;
    for (const StateUpdate& update : graph.state_updates()) pinned_[index_of(update.next)] = true;
    for (std::size_t v = 0; v < graph.value_count(); ++v) {
      strides_[v] = row_major_strides(graph.type(ValueId(v)).shape);
      elements_[v] = graph.type(ValueId(v)).shape.numel();
    }
    find_loop_ends();
  }

  Placements place(bool arena) {
    if (arena) place_backward();
    place_forward(arena);
    assign_storages();
    if (arena) {
      overwrite_states();  // first: an operand to overwrite can be found elsewhere, a state's next value has one place
                           // to go
      overwrite_operands();
    }
    drop_unused_storages();
    return std::move(result_);
  }

 private:
  struct Use {
    int position;
    int input;
  };
  /// A value that lies inside another one, `offset` elements from its start.
  struct Link {
    ValueId base = kNoValue;
    std::int64_t offset = 0;
  };
  /// A value as elements of `root`, which a kernel writes densely.
  struct View {
    ValueId root;
    std::int64_t offset;
    Shape strides;
  };

  const Node& node_at(int position) const {
    return graph_.nodes()[static_cast<std::size_t>(chosen_[static_cast<std::size_t>(position)].node)];
  }
  Shape& strides(ValueId v) { return strides_[index_of(v)]; }
  bool linked(ValueId v) const { return links_[index_of(v)].base != kNoValue; }
  /// Whether other values that are no views of `v` lie behind it in its storage.
  bool is_followed(ValueId v) const { return elements_[index_of(v)] > graph_.type(v).shape.numel(); }

  /// Whether all that read `v` accept it at these strides, views of it included.
  bool readers_accept(ValueId v, const Shape& at, int except = -1) const {
    const Shape& shape = graph_.type(v).shape;
    if (pinned_[index_of(v)] && !satisfies(StrideRule::kDense, shape, at)) return false;
    return std::ranges::all_of(uses_[index_of(v)], [&](const Use& use) {
      if (use.position == except) return true;
      const Node& reader = node_at(use.position);
      const ChosenKernel& chosen = chosen_[static_cast<std::size_t>(use.position)];
      if (is_view_op(reader.op)) {
        const auto view = view_strides(graph_, reader, at);
        return view && readers_accept(reader.results[0], *view);
      }
      return satisfies(chosen.kernel->input_strides(chosen.spec, use.input), shape, at);
    });
  }

  /// Whether a view op would be a view if its operand were dense.
  bool is_natural_view(const Node& node) {
    const auto view = view_strides(graph_, node, row_major_strides(graph_.type(node.inputs[0]).shape));
    return view && readers_accept(node.results[0], *view);
  }

  /// Whether the node that makes `v` can write it at these strides; `reader` is the node that asks. What would be a
  /// view in any case makes way only where its operand can be written there too: it must not become a copy.
  bool can_write_at(ValueId v, const Shape& at, int reader) {
    const int position = position_[index_of(v)];
    if (position < 0 || linked(v) || is_followed(v) || pinned_[index_of(v)]) return false;
    const Node& maker = node_at(position);
    if (maker.region != node_at(reader).region || maker.op == Op::kSlice) return false;
    if (!readers_accept(v, at, reader)) return false;
    if (is_view_op(maker.op) && is_natural_view(maker)) {
      const auto operand = operand_strides(graph_, maker, at);
      return operand && can_write_at(maker.inputs[0], *operand, position);
    }
    const ChosenKernel& chosen = chosen_[static_cast<std::size_t>(position)];
    const auto slot = std::ranges::find(maker.results, v) - maker.results.begin();
    return satisfies(chosen.kernel->output_strides(chosen.spec, static_cast<int>(slot)), graph_.type(v).shape, at);
  }

  /// Last to first, so that a place inside a place is known when its parts are looked at.
  void place_backward() {
    for (int i = static_cast<int>(chosen_.size()) - 1; i >= 0; --i) {
      const Node& node = node_at(i);
      if (node.op == Op::kConcat && !place_parts(i, node)) join_roots(i, node);
      const bool rearranges = node.op == Op::kReshape || node.op == Op::kTranspose;
      if (rearranges && (linked(node.results[0]) || !is_natural_view(node))) {
        const auto at = operand_strides(graph_, node, strides(node.results[0]));
        if (!at || !can_write_at(node.inputs[0], *at, i)) continue;
        strides(node.inputs[0]) = *at;
        links_[index_of(node.inputs[0])] = {node.results[0], 0};
        result_.elided[static_cast<std::size_t>(i)] = true;
      }
    }
  }

  /// Lets the kernels that make the parts write them where the whole lies; returns whether all of them can.
  bool place_parts(int position, const Node& concat) {
    const ValueId whole = concat.results[0];
    const Shape at = strides(whole);
    for (std::size_t k = 0; k < concat.inputs.size(); ++k) {
      if (std::ranges::count(concat.inputs, concat.inputs[k]) > 1) return false;
      if (!can_write_at(concat.inputs[k], at, position)) return false;
    }
    const auto axis = static_cast<int>(concat.attributes.get_int("axis"));
    std::int64_t offset = 0;
    for (const ValueId part : concat.inputs) {
      strides(part) = normalized_strides(graph_.type(part).shape, at);
      links_[index_of(part)] = {whole, offset * at[axis]};
      offset += graph_.type(part).shape[axis];
    }
    result_.elided[static_cast<std::size_t>(position)] = true;
    return true;
  }

  /// Lays the results that the parts are views of one behind the other in one storage, each dense, where the whole is
  /// then a view of it. So are the values of a text's and an image's merged QKV joined.
  void join_roots(int position, const Node& concat) {
    const ValueId whole = concat.results[0];
    if (linked(whole) || pinned_[index_of(whole)]) return;
    std::vector<View> parts;  // in the joint storage
    std::int64_t end = 0;
    for (const ValueId input : concat.inputs) {
      std::optional<View> part = view_of_root(input);
      if (!part || node_at(position_[index_of(part->root)]).region != concat.region) return;
      if (std::ranges::count(parts, part->root, &View::root) > 0) return;
      part->offset += end;
      end += elements_[index_of(part->root)];
      parts.push_back(*part);
    }
    const std::optional<Shape> at = strides_of_whole(concat, parts);
    if (!at || !readers_accept(whole, *at)) return;

    const ValueId first = parts.front().root;
    for (const View& part : parts) {
      if (part.root == first) continue;
      links_[index_of(part.root)] = {first, elements_[index_of(first)]};
      elements_[index_of(first)] += elements_[index_of(part.root)];
    }
    strides(whole) = *at;
    links_[index_of(whole)] = {first, parts.front().offset};
    result_.elided[static_cast<std::size_t>(position)] = true;
  }

  /// `v` as a view of what a kernel writes; nothing where a reader on the way needs a copy, or something on it has a
  /// place already.
  std::optional<View> view_of_root(ValueId v) const {
    const int position = position_[index_of(v)];
    if (position < 0 || linked(v) || is_followed(v) || pinned_[index_of(v)]) return std::nullopt;
    const Node& maker = node_at(position);
    if (!is_view_op(maker.op)) return View{.root = v, .offset = 0, .strides = strides_[index_of(v)]};
    std::optional<View> view = view_of_root(maker.inputs[0]);
    if (!view) return std::nullopt;
    const auto at = view_strides(graph_, maker, view->strides);
    if (!at || !readers_accept(v, *at)) return std::nullopt;
    view->offset += view_offset(maker, view->strides);
    view->strides = *at;
    return view;
  }

  /// Strides at which a concatenation holds its parts where they lie, or nothing.
  std::optional<Shape> strides_of_whole(const Node& concat, const std::vector<View>& parts) const {
    const auto axis = static_cast<int>(concat.attributes.get_int("axis"));
    const auto shape_of = [&](std::size_t k) -> const Shape& { return graph_.type(concat.inputs[k]).shape; };
    if (parts.size() < 2 || shape_of(0)[axis] == 0) return std::nullopt;
    Shape at = parts[0].strides;
    at.set(axis, (parts[1].offset - parts[0].offset) / shape_of(0)[axis]);
    std::int64_t offset = parts[0].offset;
    for (std::size_t k = 0; k < parts.size(); ++k) {
      if (parts[k].offset != offset) return std::nullopt;
      if (parts[k].strides != normalized_strides(shape_of(k), at)) return std::nullopt;
      offset += shape_of(k)[axis] * at[axis];
    }
    return normalized_strides(graph_.type(concat.results[0]).shape, at);
  }

  void place_forward(bool arena) {
    for (int i = 0; i < static_cast<int>(chosen_.size()); ++i) {
      const Node& node = node_at(i);
      if (result_.elided[static_cast<std::size_t>(i)] || !is_view_op(node.op) || linked(node.results[0])) continue;
      if (!arena && node.op != Op::kReshape) continue;
      const ValueId input = node.inputs[0];
      const ValueId view = node.results[0];
      const auto at = view_strides(graph_, node, strides(input));
      if (!at || !readers_accept(view, *at) || must_own_storage(view)) continue;
      strides(view) = *at;
      links_[index_of(view)] = {input, view_offset(node, strides(input))};
      result_.elided[static_cast<std::size_t>(i)] = true;
    }
  }

  /// An output or next state may not be a view of something whose bytes change under it.
  bool must_own_storage(ValueId v) const { return pinned_[index_of(v)]; }

  void assign_storages() {
    result_.places.resize(graph_.value_count());
    for (std::size_t v = 0; v < graph_.value_count(); ++v) static_cast<void>(place_of(ValueId(v)));
  }

  const Placement& place_of(ValueId v) {
    Placement& place = result_.places[index_of(v)];
    if (place.storage >= 0 || is_weight_[index_of(v)]) return place;
    const Value& value = graph_.value(v);
    if (value.kind == ValueKind::kResult && position_[index_of(v)] < 0) return place;  // scheduled nowhere
    place.strides = strides_[index_of(v)];
    if (linked(v)) {
      const Link link = links_[index_of(v)];
      const Placement base = place_of(link.base);
      place.storage = base.storage;
      place.offset_bytes = base.offset_bytes + static_cast<std::size_t>(link.offset) * size_of(value.type.dtype);
      return place;
    }
    place.storage = static_cast<int>(result_.storages.size());
    result_.storages.push_back({.kind = storage_kind(value.kind),
                                .bytes = static_cast<std::size_t>(elements_[index_of(v)]) * size_of(value.type.dtype)});
    return place;
  }

  static StorageKind storage_kind(ValueKind kind) {
    switch (kind) {
      case ValueKind::kInput:
        return StorageKind::kInput;
      case ValueKind::kState:
        return StorageKind::kState;
      case ValueKind::kCounter:
        return StorageKind::kCounter;
      default:
        return StorageKind::kArena;
    }
  }

  void find_loop_ends() {
    loop_begin_.assign(graph_.regions().size(), static_cast<int>(chosen_.size()));
    loop_end_.assign(graph_.regions().size(), -1);
    for (int i = 0; i < static_cast<int>(chosen_.size()); ++i)
      for (RegionId r = node_at(i).region; r >= 0; r = graph_.regions()[static_cast<std::size_t>(r)].parent) {
        loop_begin_[static_cast<std::size_t>(r)] = std::min(loop_begin_[static_cast<std::size_t>(r)], i);
        loop_end_[static_cast<std::size_t>(r)] = std::max(loop_end_[static_cast<std::size_t>(r)], i);
      }
  }

  /// The last position at which `v` is needed. A use inside a loop that `v` was made before counts until the loop ends.
  int last_need(ValueId v) const {
    if (std::ranges::any_of(graph_.outputs(), [&](const Output& output) { return output.value == v; }))
      return static_cast<int>(chosen_.size());
    int last = position_[index_of(v)];
    for (const Use& use : uses_[index_of(v)]) {
      last = std::max(last, use.position);
      for (RegionId r = node_at(use.position).region; r > kTopRegion;
           r = graph_.regions()[static_cast<std::size_t>(r)].parent)
        if (position_[index_of(v)] < loop_begin_[static_cast<std::size_t>(r)])
          last = std::max(last, loop_end_[static_cast<std::size_t>(r)]);
    }
    for (const StateUpdate& update : graph_.state_updates())
      if (update.next == v) last = std::max(last, loop_end_[static_cast<std::size_t>(update.region)]);
    return last;
  }

  void overwrite_operands() {
    std::vector<int> needed(result_.storages.size(), -1);
    for (std::size_t v = 0; v < graph_.value_count(); ++v)
      if (const int s = result_.places[v].storage; s >= 0)
        needed[static_cast<std::size_t>(s)] = std::max(needed[static_cast<std::size_t>(s)], last_need(ValueId(v)));

    for (int i = 0; i < static_cast<int>(chosen_.size()); ++i) {
      const Node& node = node_at(i);
      const ChosenKernel& chosen = chosen_[static_cast<std::size_t>(i)];
      const ValueId out = node.results[0];
      if (result_.elided[static_cast<std::size_t>(i)] || !owns_whole_storage(out)) continue;
      for (std::size_t k = 0; k < node.inputs.size(); ++k) {
        const ValueId in = node.inputs[k];
        const Placement& at = result_.places[index_of(in)];
        if (is_weight_[index_of(in)] || !chosen.kernel->may_overwrite(chosen.spec, static_cast<int>(k))) continue;
        const auto storage = static_cast<std::size_t>(at.storage);
        if (result_.storages[storage].kind != StorageKind::kArena || needed[storage] > i) continue;
        if (!(graph_.type(in) == graph_.type(out)) || std::ranges::count(node.inputs, in) > 1) continue;
        if (!readers_accept(out, at.strides) ||
            !satisfies(chosen.kernel->output_strides(chosen.spec, 0), graph_.type(out).shape, at.strides))
          continue;
        if (other_operand_overlaps(node, k)) continue;
        const Placement& own =
            result_.places[index_of(out)];  // views of the result were made for the strides it has now
        if (own.strides != at.strides && storage_users(own.storage) > 1) continue;
        move_storage(out, at);
        needed[storage] = std::max(needed[storage], storage_need(at.storage));
        break;
      }
    }
  }

  /// Whether another operand lies in the same storage, so that writing over operand `k` could change it.
  bool other_operand_overlaps(const Node& node, std::size_t k) const {
    const int storage = result_.places[index_of(node.inputs[k])].storage;
    for (std::size_t other = 0; other < node.inputs.size(); ++other)
      if (other != k && result_.places[index_of(node.inputs[other])].storage == storage) return true;
    return false;
  }

  /// Whether `v` has an activation's storage of its own, which nothing but views of it lies in.
  bool owns_whole_storage(ValueId v) const {
    const int storage = result_.places[index_of(v)].storage;
    return !linked(v) && !is_followed(v) && storage >= 0 &&
           result_.storages[static_cast<std::size_t>(storage)].kind == StorageKind::kArena;
  }

  int storage_need(int storage) const {
    int last = -1;
    for (std::size_t v = 0; v < graph_.value_count(); ++v)
      if (result_.places[v].storage == storage) last = std::max(last, last_need(ValueId(v)));
    return last;
  }

  /// Moves `v`, which is at its storage's start, and every view of it to where `target` is.
  void move_storage(ValueId v, const Placement& target) {
    const Placement at = target;
    const int from = result_.places[index_of(v)].storage;
    for (std::size_t other = 0; other < graph_.value_count(); ++other) {
      Placement& place = result_.places[other];
      if (from < 0 || place.storage != from) continue;
      place.storage = at.storage;
      place.offset_bytes += at.offset_bytes;
    }
    result_.places[index_of(v)].strides = at.strides;
  }

  void overwrite_states() {
    for (std::size_t u = 0; u < graph_.state_updates().size(); ++u) {
      const StateUpdate& update = graph_.state_updates()[u];
      const int made = position_[index_of(update.next)];
      if (made < 0 || !owns_whole_storage(update.next)) continue;
      const Node& maker = node_at(made);
      const Placement& state = result_.places[index_of(update.value)];
      if (maker.region != update.region || result_.elided[static_cast<std::size_t>(made)]) continue;
      if (storage_users(result_.places[index_of(update.next)].storage) > 1) continue;
      if (state_reads_allow(update, made)) {
        move_storage(update.next, state);
        result_.state_in_place[u] = true;
      }
    }
  }

  /// Whether nobody reads the old state after `made`, and the kernel there may write over it if it reads it.
  bool state_reads_allow(const StateUpdate& update, int made) const {
    const int storage = result_.places[index_of(update.value)].storage;
    const ChosenKernel& chosen = chosen_[static_cast<std::size_t>(made)];
    for (std::size_t v = 0; v < graph_.value_count(); ++v) {
      if (result_.places[v].storage != storage) continue;
      for (const Use& use : uses_[v]) {
        if (node_at(use.position).region != update.region || use.position > made) return false;
        if (use.position == made && !chosen.kernel->may_overwrite(chosen.spec, use.input)) return false;
        if (use.position == made && !(graph_.type(ValueId(v)) == graph_.type(update.next))) return false;
      }
    }
    return true;
  }

  int storage_users(int storage) const {
    return static_cast<int>(std::ranges::count(result_.places, storage, &Placement::storage));
  }

  void drop_unused_storages() {
    std::vector<int> renumbered(result_.storages.size(), -1);
    for (const Placement& place : result_.places)
      if (place.storage >= 0) renumbered[static_cast<std::size_t>(place.storage)] = 0;
    std::vector<Storage> kept;
    for (std::size_t s = 0; s < renumbered.size(); ++s) {
      if (renumbered[s] < 0) continue;
      renumbered[s] = static_cast<int>(kept.size());
      kept.push_back(result_.storages[s]);
    }
    for (Placement& place : result_.places)
      if (place.storage >= 0) place.storage = renumbered[static_cast<std::size_t>(place.storage)];
    result_.storages = std::move(kept);
  }

  const Graph& graph_;
  const std::vector<ChosenKernel>& chosen_;
  const std::vector<bool>& is_weight_;
  std::vector<int> position_;               // by value: where it is made, or -1
  std::vector<std::vector<Use>> uses_;      // by value
  std::vector<bool> pinned_;                // by value: an output or a next state, so dense and in a storage of its own
  std::vector<Link> links_;                 // by value
  std::vector<Shape> strides_;              // by value
  std::vector<std::int64_t> elements_;      // by value: of the storage that it begins, if it does
  std::vector<int> loop_begin_, loop_end_;  // by region: first and last position
  Placements result_;
};

}  // namespace

Placements place_values(const Graph& graph, const std::vector<ChosenKernel>& chosen, const std::vector<bool>& is_weight,
                        bool arena) {
  return Placer(graph, chosen, is_weight).place(arena);
}

}  // namespace headroom
