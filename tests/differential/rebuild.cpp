#include "differential/rebuild.hpp"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "base/error.hpp"
#include "ir/op_definition.hpp"
#include "ir/schedule.hpp"
#include "ir/verify.hpp"

namespace headroom::differential {
namespace {

class Rebuilder {
 public:
  Rebuilder(const Graph& from, const Edit& edit)
      : from_(from),
        edit_(edit),
        schedule_(from),
        to_(from.name()),
        is_live_(from.value_count(), false),
        has_live_(from.regions().size(), false),
        map_(from.value_count(), kNoValue),
        region_map_(from.regions().size(), kNoRegion) {
    for (const std::string& block : from.blocks()) to_.add_block(block);
  }

  Graph run() {
    find_live();
    region_map_[kTopRegion] = kTopRegion;
    for (std::size_t i = 0; i < from_.value_count(); ++i)
      if (is_live_[i]) declare(static_cast<ValueId>(i));
    walk(kTopRegion);
    for (std::size_t i = 0; i < from_.outputs().size(); ++i)
      if (!edit_.dropped_outputs.contains(i)) to_.add_output(from_.outputs()[i].name, mapped(from_.outputs()[i].value));
    for (const ValueId value : unread_) to_.add_output(fmt::format("unread{}", index_of(value)), mapped(value));
    return std::move(to_);
  }

 private:
  ValueId resolved(ValueId value) const {
    const auto found = edit_.instead.find(value);
    return found == edit_.instead.end() ? value : found->second;
  }
  ValueId mapped(ValueId value) const { return map_[index_of(resolved(value))]; }

  /// If the `then` branch of an `if` moves to its parent: the `else` region; otherwise kNoRegion.
  bool is_dropped(RegionId region) const {
    const RegionId branch = from_.region(region).branch;
    return branch != kNoRegion && branch == edit_.unwrapped;
  }

  void need(ValueId value) {
    if (value == kNoValue) return;
    is_live_[index_of(resolved(value))] = true;
  }

  void need_region(RegionId region) {
    for (; region > kTopRegion && !has_live_[index_of(region)]; region = from_.region(region).parent) {
      has_live_[index_of(region)] = true;
      const RegionId branch = from_.region(region).branch;
      if (branch != kNoRegion) has_live_[index_of(branch)] = true;
      const RegionId then = from_.region(region).kind == RegionKind::kElse ? branch : region;
      if (from_.region(then).kind == RegionKind::kThen && then != edit_.unwrapped) need(from_.region(then).predicate);
    }
  }

  void find_unread() {
    std::vector<bool> is_read(from_.value_count(), false);
    for (const ValueId read : reads_outside_nodes(from_)) is_read[index_of(read)] = true;
    for (const Node& node : from_.nodes())
      for (const ValueId input : node.inputs) is_read[index_of(input)] = true;
    for (const Node& node : from_.nodes())
      for (const ValueId result : node.results)
        if (!is_read[index_of(result)] && node.region == kTopRegion) unread_.push_back(result);
    std::ranges::for_each(unread_, [&](ValueId value) { need(value); });
  }

  void find_live() {
    if (edit_.shows_unread) find_unread();
    for (std::size_t i = 0; i < from_.outputs().size(); ++i)
      if (!edit_.dropped_outputs.contains(i)) need(from_.outputs()[i].value);
    for (std::size_t i = 0; i < from_.state_updates().size(); ++i) {
      const StateUpdate& update = from_.state_updates()[i];
      if (edit_.dropped_updates.contains(i) || is_dropped(update.region)) continue;
      need(update.value);
      need(update.next);
      need_region(update.region);
    }
    std::ptrdiff_t before = -1;
    while (std::ranges::count(is_live_, true) > before) {
      before = std::ranges::count(is_live_, true);
      for (const Node& node : from_.nodes()) {
        const auto is_wanted = [&](ValueId v) { return is_live_[index_of(v)] && !edit_.cut.contains(v); };
        if (std::ranges::none_of(node.results, is_wanted)) continue;
        std::ranges::for_each(node.inputs, [&](ValueId input) { need(input); });
        need_region(node.region);
      }
      for (std::size_t r = 0; r < from_.regions().size(); ++r)
        for (const RegionResult& result : from_.regions()[r].results) {
          if (!is_live_[index_of(result.value)] || edit_.cut.contains(result.value)) continue;
          need(result.from);
          if (static_cast<RegionId>(r) != edit_.unwrapped) need(result.otherwise);
          need_region(static_cast<RegionId>(r));
        }
    }
  }

  std::int64_t extent(std::int64_t given) const { return given == edit_.extent && given > 0 ? edit_.smaller : given; }

  /// Row-major, as callers provide it.
  TensorType type(ValueId value) const {
    TensorType type{from_.type(value).dtype, from_.type(value).shape};
    for (int axis = 0; axis < type.shape.rank(); ++axis) type.shape.set(axis, extent(type.shape[axis]));
    return type;
  }

  void declare(ValueId id) {
    const Value& value = from_.value(id);
    if (edit_.cut.contains(id)) {
      std::string name = fmt::format("cut{}", index_of(id));
      while (from_.find(ValueKind::kInput, name) != kNoValue) name += "x";
      map_[index_of(id)] = laid(to_.add_input(std::move(name), type(id)), from_.type(id).layout);
    } else if (value.kind == ValueKind::kInput) {
      map_[index_of(id)] = to_.add_input(value.name, type(id));
    } else if (value.kind == ValueKind::kParam) {
      map_[index_of(id)] = to_.add_param(value.name, type(id));
    } else if (value.kind == ValueKind::kState) {
      map_[index_of(id)] = to_.add_state(value.name, type(id));
    }
  }

  ValueId laid(ValueId input, Layout layout) {
    if (layout == Layout::kRowMajor) return input;
    const Shape shape = to_.type(input).shape;
    const std::vector<std::int64_t> extents(shape.dims().begin(), shape.dims().end());
    const ValueId image =
        to_.append(Op::kReshape, {input}, Attributes(Op::kReshape, {{"shape", extents}}), "", kTopRegion);
    to_.set_layout(image, layout);
    return image;
  }

  Attributes attributes(const Node& node) const {
    NamedAttributes changed;
    for (auto [name, value] : node.attributes.all()) {
      if (auto* extents = std::get_if<std::vector<std::int64_t>>(&value);
          extents != nullptr && name != attr::kPerm.name)
        for (std::int64_t& e : *extents) e = extent(e);
      if (auto* number = std::get_if<std::int64_t>(&value); number != nullptr && name != attr::kAxis.name)
        *number = extent(*number);
      changed.emplace_back(name, std::move(value));
    }
    return Attributes(node.op, std::move(changed));
  }

  void copy(const Node& node) {
    const bool live =
        std::ranges::any_of(node.results, [&](ValueId v) { return is_live_[index_of(v)] && !edit_.cut.contains(v); });
    if (!live) return;
    std::vector<ValueId> inputs;
    for (const ValueId input : node.inputs) inputs.push_back(mapped(input));
    to_.append(node.op, inputs, attributes(node), node.path, region_map_[index_of(node.region)]);
    for (std::size_t i = 0; i < node.results.size(); ++i) {
      const ValueId result = node.results[i], copied = to_.nodes().back().results[i];
      if (is_view(node.op) || node.op == Op::kRow)
        to_.set_layout(copied, edit_.untagged.contains(result) ? Layout::kRowMajor : from_.type(result).layout);
      if (!edit_.cut.contains(result)) map_[index_of(result)] = copied;
    }
  }

  void walk(RegionId region) {
    for (const ScheduleItem& item : schedule_.items(region)) {
      if (item.region == kNoRegion)
        copy(from_.nodes()[item.node]);
      else if (has_live_[index_of(item.region)])
        walk_nested(item.region);
    }
    for (std::size_t i = 0; i < from_.state_updates().size(); ++i) {
      const StateUpdate& update = from_.state_updates()[i];
      if (update.region == region && !edit_.dropped_updates.contains(i))
        to_.set_next(mapped(update.value), mapped(update.next), region_map_[index_of(region)]);
    }
  }

  void walk_nested(RegionId id) {
    const Region& region = from_.region(id);
    const RegionId parent = region_map_[index_of(region.parent)];
    const bool is_kept = id != edit_.unwrapped;
    if (!is_kept) {
      region_map_[index_of(id)] = parent;
      if (region.kind == RegionKind::kLoop) map_[index_of(region.counter)] = counter_input(region);
    } else if (region.kind == RegionKind::kLoop) {
      const auto trips = edit_.trip_counts.find(id);
      const std::int64_t count = trips == edit_.trip_counts.end() ? extent(region.trip_count) : trips->second;
      region_map_[index_of(id)] = to_.add_loop(parent, count, from_.value(region.counter).name);
      map_[index_of(region.counter)] = to_.region(region_map_[index_of(id)]).counter;
    } else {
      region_map_[index_of(id)] = to_.add_then(parent, mapped(region.predicate));
    }
    walk(id);
    if (region.branch != kNoRegion && is_kept) {
      region_map_[index_of(region.branch)] = to_.add_else(region_map_[index_of(id)]);
      walk(region.branch);
    }
    for (const RegionResult& result : region.results) {
      if (!is_live_[index_of(result.value)] || edit_.cut.contains(result.value)) continue;
      const ValueId otherwise = result.otherwise == kNoValue || !is_kept ? kNoValue : mapped(result.otherwise);
      map_[index_of(result.value)] =
          is_kept ? to_.add_region_result(region_map_[index_of(id)], mapped(result.from), otherwise)
                  : mapped(result.from);
    }
  }

  /// Replaces reads of the counter of a removed loop.
  ValueId counter_input(const Region& loop) {
    return to_.add_input("was_" + from_.value(loop.counter).name, from_.type(loop.counter));
  }

  const Graph& from_;
  const Edit& edit_;
  Schedule schedule_;
  Graph to_;
  std::vector<bool> is_live_;   // by value of `from_`
  std::vector<bool> has_live_;  // by region
  std::vector<ValueId> unread_;
  std::vector<ValueId> map_;
  std::vector<RegionId> region_map_;
};

/// Whether every counter used as an index stays within its table's rows.
bool rows_exist(const Graph& graph) {
  return std::ranges::all_of(graph.nodes(), [&](const Node& node) {
    if (node.op != Op::kRow) return true;
    return std::ranges::all_of(graph.regions(), [&](const Region& region) {
      return region.counter != node.inputs[1] || region.trip_count <= graph.type(node.inputs[0]).shape[0];
    });
  });
}

}  // namespace

std::optional<Graph> rebuild(const Graph& graph, const Edit& edit) {
  try {
    Graph changed = Rebuilder(graph, edit).run();
    verify(changed);
    if (!rows_exist(changed)) return std::nullopt;
    return changed;
  } catch (const std::exception&) {  // shapes that no longer fit, reads of removed values
    return std::nullopt;
  }
}

}  // namespace headroom::differential
