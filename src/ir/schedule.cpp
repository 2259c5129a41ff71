#include "ir/schedule.hpp"

#include <algorithm>
#include <limits>
#include <tuple>

namespace headroom {
namespace {

/// The first position of each region, as the index of the node that it precedes.
class Places {
 public:
  explicit Places(const Graph& graph)
      : graph_(graph),
        begins_(graph.regions().size(), kAtEnd),
        has_nodes_(graph.regions().size(), false),
        readers_(graph.value_count()) {
    for (std::size_t i = graph.nodes().size(); i-- > 0;)
      for (RegionId region = graph.nodes()[i].region; region > kTopRegion; region = graph.region(region).parent) {
        const std::size_t r = index_of(item_of(region));
        begins_[r] = i;
        has_nodes_[r] = true;
      }
    find_readers();
    // A region without nodes may have to precede another one, whose position is found later.
    bool has_moved = true;
    while (has_moved) {
      has_moved = false;
      for (auto region = static_cast<RegionId>(begins_.size()) - 1; region > kTopRegion; --region)
        if (item_of(region) == region && !has_nodes_[index_of(region)]) has_moved = place_empty(region) || has_moved;
    }
  }

  [[nodiscard]] std::size_t begin(RegionId region) const { return begins_[index_of(region)]; }
  [[nodiscard]] bool has_nodes(RegionId region) const { return has_nodes_[index_of(region)]; }
  /// The region that is an item of the schedule: for an else, its then.
  [[nodiscard]] RegionId item_of(RegionId region) const {
    const Region& it = graph_.region(region);
    return it.kind == RegionKind::kElse ? it.branch : region;
  }

 private:
  static constexpr std::size_t kAtEnd = std::numeric_limits<std::size_t>::max();

  struct Reader {
    RegionId region;   // the region of the read
    std::size_t node;  // kAtEnd if the region reads it at its end
  };

  /// The value of a state before the update, read by a region at its end.
  struct StateRead {
    ValueId state;
    RegionId region;
  };

  void find_readers() {
    const auto note = [&](ValueId value, RegionId region, std::size_t node) {
      if (value == kNoValue) return;
      if (graph_.value(value).kind == ValueKind::kRegionResult) readers_[index_of(value)].push_back({region, node});
      if (graph_.value(value).kind == ValueKind::kState && node == kAtEnd) state_reads_.push_back({value, region});
    };
    for (std::size_t i = 0; i < graph_.nodes().size(); ++i)
      for (const ValueId input : graph_.nodes()[i].inputs) note(input, graph_.nodes()[i].region, i);
    for (const StateUpdate& update : graph_.state_updates()) note(update.next, update.region, kAtEnd);
    for (std::size_t r = 0; r < graph_.regions().size(); ++r) {
      const Region& region = graph_.regions()[r];
      note(region.predicate, static_cast<RegionId>(r), kAtEnd);
      for (const RegionResult& result : region.results) {
        note(result.from, static_cast<RegionId>(r), kAtEnd);
        note(result.otherwise, static_cast<RegionId>(r), kAtEnd);
      }
    }
  }

  /// Returns whether it moved to an earlier position.
  bool place_empty(RegionId region) {
    const RegionId parent = graph_.region(region).parent;
    const std::size_t before = begins_[index_of(region)];
    std::size_t& begin = begins_[index_of(region)];
    for (const RegionResult& result : graph_.region(region).results)
      for (const Reader& reader : readers_[index_of(result.value)]) begin = std::min(begin, place_in(parent, reader));
    for (const StateRead& read : state_reads_) {
      if (!is_in_item(read.region, region)) continue;
      for (const StateUpdate& update : graph_.state_updates())
        if (update.value == read.state && !is_in_item(update.region, region))
          begin = std::min(begin, place_in(parent, {update.region, kAtEnd}));
    }
    return begin < before;
  }

  /// Whether `inner` is the region of the item, its else, or nested in one of them.
  [[nodiscard]] bool is_in_item(RegionId inner, RegionId item) const {
    const RegionId branch = graph_.region(item).branch;
    return is_within(graph_, inner, item) || (branch != kNoRegion && is_within(graph_, inner, branch));
  }

  /// The position of a reader in `parent`: its own, or that of the region in `parent` that contains it.
  [[nodiscard]] std::size_t place_in(RegionId parent, const Reader& reader) const {
    if (reader.region == parent) return reader.node;
    RegionId child = reader.region;
    while (child > kTopRegion && graph_.region(child).parent != parent) child = graph_.region(child).parent;
    return child > kTopRegion ? begins_[index_of(item_of(child))] : kAtEnd;
  }

  const Graph& graph_;
  std::vector<std::size_t> begins_;           // by region
  std::vector<bool> has_nodes_;               // by region; for an `if` by its then, for both branches
  std::vector<std::vector<Reader>> readers_;  // by value, of region results
  std::vector<StateRead> state_reads_;        // by readers that are not nodes
};

}  // namespace

Schedule::Schedule(const Graph& graph) : items_(graph.regions().size()) {
  const Places places(graph);
  struct Placed {
    std::size_t place;
    int rank;  // in one position: regions without nodes, then the region that begins here, then the node
    ScheduleItem item;
  };
  std::vector<std::vector<Placed>> placed(items_.size());
  for (auto region = kTopRegion + 1; region < static_cast<RegionId>(items_.size()); ++region)
    if (places.item_of(region) == region)
      placed[index_of(graph.region(region).parent)].push_back(
          {places.begin(region), places.has_nodes(region) ? 1 : 0, {.region = region, .node = 0}});
  for (std::size_t i = 0; i < graph.nodes().size(); ++i)
    placed[index_of(graph.nodes()[i].region)].push_back({i, 2, {.region = kNoRegion, .node = i}});
  for (std::size_t r = 0; r < items_.size(); ++r) {
    std::ranges::stable_sort(placed[r], {}, [](const Placed& it) { return std::tuple(it.place, it.rank); });
    for (const Placed& it : placed[r]) items_[r].push_back(it.item);
  }
}

}  // namespace headroom
