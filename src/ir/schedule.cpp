#include "ir/schedule.hpp"

#include <algorithm>
#include <limits>
#include <tuple>

namespace headroom {
namespace {

/// Where regions begin, as the index of the node that they stand before.
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
    for (auto region = static_cast<RegionId>(begins_.size()) - 1; region > kTopRegion; --region)
      if (item_of(region) == region && !has_nodes_[index_of(region)]) place_empty(region);
  }

  [[nodiscard]] std::size_t begin(RegionId region) const { return begins_[index_of(region)]; }
  [[nodiscard]] bool has_nodes(RegionId region) const { return has_nodes_[index_of(region)]; }
  /// The region that stands in the schedule: of an else, its then.
  [[nodiscard]] RegionId item_of(RegionId region) const {
    const Region& it = graph_.region(region);
    return it.kind == RegionKind::kElse ? it.branch : region;
  }

 private:
  static constexpr std::size_t kAtEnd = std::numeric_limits<std::size_t>::max();

  struct Reader {
    RegionId region;   // in which the value is read
    std::size_t node;  // kAtEnd where the region reads it when it ends
  };

  void find_readers() {
    const auto note = [&](ValueId value, RegionId region, std::size_t node) {
      if (value != kNoValue && graph_.value(value).kind == ValueKind::kRegionResult)
        readers_[index_of(value)].push_back({region, node});
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

  /// Regions with greater ids are placed already, and those that read this one's results are among them.
  void place_empty(RegionId region) {
    std::size_t& begin = begins_[index_of(region)];
    for (const RegionResult& result : graph_.region(region).results)
      for (const Reader& reader : readers_[index_of(result.value)])
        begin = std::min(begin, place_in(graph_.region(region).parent, reader));
  }

  /// Where a reader stands in `parent`: itself, or the region there that it is in.
  [[nodiscard]] std::size_t place_in(RegionId parent, const Reader& reader) const {
    if (reader.region == parent) return reader.node;
    RegionId child = reader.region;
    while (child > kTopRegion && graph_.region(child).parent != parent) child = graph_.region(child).parent;
    return child > kTopRegion ? begins_[index_of(item_of(child))] : kAtEnd;
  }

  const Graph& graph_;
  std::vector<std::size_t> begins_;           // by region
  std::vector<bool> has_nodes_;               // by region; of an `if` by its then, whichever branch has them
  std::vector<std::vector<Reader>> readers_;  // by value, of region results
};

}  // namespace

Schedule::Schedule(const Graph& graph) : items_(graph.regions().size()) {
  const Places places(graph);
  struct Placed {
    std::size_t place;
    int rank;  // in one place: regions without nodes, then the region that begins here, then the node
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
