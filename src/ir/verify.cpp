#include "ir/verify.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "ir/infer.hpp"
#include "ir/op_definition.hpp"
#include "ir/schedule.hpp"

namespace headroom {
namespace {

/// One traversal of a graph, in execution order, that throws at the first violated rule.
class Verifier {
 public:
  explicit Verifier(const Graph& graph)
      : graph_(graph), homes_(graph.value_count(), kNoRegion), is_over_(graph.value_count(), false) {}

  void run() {
    check_regions();
    check_contiguity();
    for (std::size_t i = 0; i < graph_.value_count(); ++i) {
      const ValueKind kind = graph_.value(static_cast<ValueId>(i)).kind;
      check_layout(static_cast<ValueId>(i));
      if (kind == ValueKind::kInput || kind == ValueKind::kParam || kind == ValueKind::kState) homes_[i] = kTopRegion;
    }
    for (const Node& node : graph_.nodes())
      for (const ValueId input : node.inputs) check_exists(input, [&] { return describe(node); });
    check_state_updates();
    const Schedule schedule(graph_);
    schedule_ = &schedule;
    walk(kTopRegion);
    for (const Output& output : graph_.outputs()) {
      const auto user = [&] { return "the output " + output.name; };
      check_exists(output.value, user);
      // Outputs are read at the very end, so an output that names a state has its final value.
      if (graph_.value(output.value).kind != ValueKind::kState) check_use(output.value, kTopRegion, user);
      if (is_channels_last(output.value)) broken("{} must be row-major, as callers take it", user());
    }
  }

 private:
  template <typename... Args>
  [[noreturn]] void broken(fmt::format_string<Args...> format, Args&&... args) const {
    throw std::logic_error(
        fmt::format("graph {}: {}", graph_.name(), fmt::format(format, std::forward<Args>(args)...)));
  }

  [[nodiscard]] std::string name_of_value(ValueId id) const {
    if (index_of(id) >= graph_.value_count()) return fmt::format("%{}", static_cast<std::int32_t>(id));
    const Value& value = graph_.value(id);
    return value.name.empty() ? fmt::format("%{}", static_cast<std::int32_t>(id)) : "%" + value.name;
  }

  [[nodiscard]] bool is_region(RegionId region) const {
    return region >= 0 && index_of(region) < graph_.regions().size();
  }

  [[nodiscard]] bool is_channels_last(ValueId id) const { return graph_.type(id).layout == Layout::kChannelsLast; }

  /// Only images are channels-last; inputs and outputs are not.
  void check_layout(ValueId id) const {
    if (!is_channels_last(id)) return;
    const ValueKind kind = graph_.value(id).kind;
    if (graph_.type(id).shape.rank() != 4)
      broken("{} is {} channels_last, but an image has four axes", name_of_value(id), graph_.type(id));
    if (kind != ValueKind::kResult && kind != ValueKind::kRegionResult)
      broken("the {} {} must be row-major", name_of(kind), name_of_value(id));
  }

  void check_regions() const {
    const std::span<const Region> regions = graph_.regions();
    if (regions.empty() || regions[0].kind != RegionKind::kStraight || regions[0].parent != kNoRegion)
      broken("region 0 must be the straight line of the program");
    for (std::size_t i = 1; i < regions.size(); ++i) {
      const Region& region = regions[i];
      if (region.parent < 0 || index_of(region.parent) >= i)
        broken("region {} must be nested in an earlier one, not in {}", i, region.parent);
      if (region.kind == RegionKind::kStraight) broken("region {} must be a loop or a branch", i);
      if (region.kind == RegionKind::kLoop)
        check_loop(i, region);
      else
        check_branch(static_cast<RegionId>(i), region);
      check_results(i, region);
    }
  }

  void check_results(std::size_t id, const Region& region) const {
    for (const RegionResult& result : region.results) {
      if (index_of(result.value) >= graph_.value_count() || graph_.value(result.value).kind != ValueKind::kRegionResult)
        broken("region {} returns {}, which is not a region result", id, name_of_value(result.value));
      if ((region.kind == RegionKind::kThen) != (result.otherwise != kNoValue))
        broken("region {} must say what its result {} is in {}", id, name_of_value(result.value),
               region.kind == RegionKind::kThen ? "both branches" : "one branch alone");
    }
  }

  void check_loop(std::size_t id, const Region& loop) const {
    if (loop.trip_count < 1) broken("loop {} must run at least once, not {} times", id, loop.trip_count);
    if (index_of(loop.counter) >= graph_.value_count() || graph_.value(loop.counter).kind != ValueKind::kCounter)
      broken("loop {} has no counter", id);
    if (graph_.type(loop.counter) != TensorType{DType::kI32, Shape{}})
      broken("the counter {} must be an i32 scalar", name_of_value(loop.counter));
    if (std::ranges::count(graph_.regions(), loop.counter, &Region::counter) > 1)
      broken("{} counts two loops", name_of_value(loop.counter));
  }

  void check_branch(RegionId id, const Region& region) const {
    if (region.branch != kNoRegion) {
      const bool paired = is_region(region.branch) && graph_.region(region.branch).branch == id &&
                          graph_.region(region.branch).kind != region.kind &&
                          graph_.region(region.branch).parent == region.parent;
      if (!paired) broken("region {} must be paired with the other branch of its if, not with {}", id, region.branch);
    } else if (region.kind == RegionKind::kElse) {
      broken("the else {} must belong to a then", id);
    }
    if (region.kind == RegionKind::kElse) {
      if (!region.results.empty()) broken("the results of an if are its then's, not those of its else {}", id);
      return;
    }
    check_exists(region.predicate, [&] { return fmt::format("the if {}", id); });
    const TensorType& type = graph_.type(region.predicate);
    if (type.dtype != DType::kBool || type.shape.rank() != 0)
      broken("the predicate {} must be a bool scalar, not {}", name_of_value(region.predicate), type);
  }

  /// The nodes of each region, nested ones included, must be contiguous. Those of an else must follow those of its
  /// then.
  void check_contiguity() const {
    std::vector<std::size_t> first(graph_.regions().size()), count(graph_.regions().size(), 0);
    for (std::size_t i = 0; i < graph_.nodes().size(); ++i) {
      const Node& node = graph_.nodes()[i];
      if (!is_region(node.region)) broken("{} is in region {}, which does not exist", describe(node), node.region);
      for (RegionId region = node.region; region >= 0; region = graph_.region(region).parent) {
        const std::size_t r = index_of(region);
        if (count[r]++ == 0) first[r] = i;
        if (first[r] + count[r] != i + 1)
          broken("{} continues region {}, which ended before it", describe(node), region);
      }
    }
    for (std::size_t r = 0; r < count.size(); ++r) {
      const Region& region = graph_.regions()[r];
      if (region.kind != RegionKind::kElse || count[r] == 0 || count[index_of(region.branch)] == 0) continue;
      if (first[r] != first[index_of(region.branch)] + count[index_of(region.branch)])
        broken("the else {} must directly follow its then", r);
    }
  }

  void walk(RegionId id) {
    for (const ScheduleItem& item : schedule_->items(id)) {
      if (item.region == kNoRegion)
        check_node(graph_.nodes()[item.node]);
      else
        walk_nested(item.region);
    }
  }

  void walk_nested(RegionId id) {
    const Region& region = graph_.region(id);
    region.kind == RegionKind::kLoop ? walk_loop(id, region) : walk_if(id, region);
    for (const RegionResult& result : region.results) define_result(id, result);
  }

  void walk_loop(RegionId id, const Region& loop) {
    homes_[index_of(loop.counter)] = id;
    walk(id);
    end(id, id);
  }

  /// Each branch reads the states as they were before the `if`, and so do the values that replace a missing else.
  void walk_if(RegionId id, const Region& then) {
    check_use(then.predicate, then.parent, [&] { return fmt::format("the if {}", id); });
    const std::vector<bool> over_before = is_over_;
    walk(id);
    end(id, id);
    const std::vector<bool> over_after_then = std::exchange(is_over_, over_before);
    if (then.branch != kNoRegion) walk(then.branch);
    then.branch != kNoRegion ? end(then.branch, then.branch) : end(id, then.parent);
    for (std::size_t i = 0; i < is_over_.size(); ++i) is_over_[i] = is_over_[i] || over_after_then[i];
  }

  /// The values that a region assigns to its results and states; only these may be read from then on. They are read
  /// in `reader`: the region itself, or, if a then does not run, its parent.
  void end(RegionId id, RegionId reader) {
    const std::vector<Assignment> assignments = assignments_at_end(graph_, id, reader == id);
    const auto is_state = [&](ValueId value) { return graph_.value(value).kind == ValueKind::kState; };
    for (const auto& [to, from] : assignments) {
      const auto user = [&, to = to] {
        return is_state(to) ? "the update of " + name_of_value(to)
                            : fmt::format("region {}, for its result {},", reader, name_of_value(to));
      };
      check_use(from, reader, user);
      if (graph_.type(to) != graph_.type(from))
        broken("{} must be {}, not {}", user(), graph_.type(to), graph_.type(from));
    }
    for (const auto& [to, from] : assignments) is_over_[index_of(to)] = is_over_[index_of(to)] || is_state(to);
  }

  void define_result(RegionId id, const RegionResult& result) {
    if (homes_[index_of(result.value)] != kNoRegion)
      broken("region {} returns {}, which is returned already", id, name_of_value(result.value));
    homes_[index_of(result.value)] = graph_.region(id).parent;
  }

  void check_node(const Node& node) {
    const OpSchema& schema = schema_of(node.op);
    check_attributes(node, schema);
    std::vector<TensorType> input_types;
    for (const ValueId input : node.inputs) {
      check_use(input, node.region, [&] { return describe(node); });
      input_types.push_back(graph_.type(input));
    }
    std::vector<TensorType> wanted;
    try {
      wanted = infer(node.op, node.attributes, input_types);
    } catch (const Error& error) {
      broken("{}: {}", describe(node), error.what());
    }
    if (node.results.size() != wanted.size()) {
      broken("{} must have {} results, not {}", describe(node), wanted.size(), node.results.size());
    }
    for (std::size_t i = 0; i < wanted.size(); ++i) define_result(node, node.results[i], wanted[i]);
  }

  void check_attributes(const Node& node, const OpSchema& schema) const {
    const auto given = node.attributes.all();
    bool match = given.size() == schema.attributes.size();
    for (std::size_t i = 0; match && i < given.size(); ++i) {
      match = given[i].name == schema.attributes[i].name &&
              given[i].value.index() == static_cast<std::size_t>(schema.attributes[i].kind);
    }
    if (!match) broken("{} has attributes that do not match its op", describe(node));
  }

  void define_result(const Node& node, ValueId result, const TensorType& wanted) {
    if (index_of(result) >= graph_.value_count() || graph_.value(result).kind != ValueKind::kResult) {
      broken("{} makes {}, which is not a result value", describe(node), name_of_value(result));
    }
    if (homes_[index_of(result)] != kNoRegion)
      broken("{} makes {} a second time", describe(node), name_of_value(result));
    const TensorType& type = graph_.type(result);
    if (type.dtype != wanted.dtype || type.shape != wanted.shape) {
      broken("{} makes {}, but its result {} is declared {}", describe(node), wanted, name_of_value(result), type);
    }
    check_layout_of(node, result, wanted.layout);
    homes_[index_of(result)] = node.region;
  }

  /// For views and rows the layout is a tag that passes choose; infer() only proposes one. A reshape makes
  /// channels-last images only from operands of the same extents.
  void check_layout_of(const Node& node, ValueId result, Layout wanted) const {
    const Layout layout = graph_.type(result).layout;
    if (layout != wanted && !is_view(node.op) && node.op != Op::kRow)
      broken("{} makes its result {} in the layout of its operands, not {}", describe(node), name_of_value(result),
             layout == Layout::kChannelsLast ? "channels_last" : "row-major");
    if (node.op == Op::kReshape && layout == Layout::kChannelsLast &&
        graph_.type(result).shape != graph_.type(node.inputs[0]).shape)
      broken("{} makes a channels_last result {} of other extents", describe(node), name_of_value(result));
  }

  // `user()` is the reader in words, for the message.
  void check_exists(ValueId id, const auto& user) const {
    if (index_of(id) >= graph_.value_count()) broken("{} reads {}, which does not exist", user(), name_of_value(id));
  }

  /// A use in `region` refers to values defined so far in it or in enclosing regions. A state can be used until the
  /// region that updates it ends.
  void check_use(ValueId id, RegionId region, const auto& user) const {
    check_exists(id, user);
    const RegionId home = homes_[index_of(id)];
    if (home == kNoRegion) broken("{} reads {} before it is defined", user(), name_of_value(id));
    if (!is_within(graph_, region, home))
      broken("{} reads {}, which exists only inside region {}", user(), name_of_value(id), home);
    if (is_over_[index_of(id)])
      broken("{} reads {} after the region that updates it, whose result it must read", user(), name_of_value(id));
  }

  /// A state has one update, or one in each branch of one `if`.
  void check_state_updates() const {
    std::vector<RegionId> updated(graph_.value_count(), kNoRegion);
    for (const StateUpdate& update : graph_.state_updates()) {
      check_exists(update.value, [] { return "an update"; });
      if (graph_.value(update.value).kind != ValueKind::kState)
        broken("{} is updated, but is not a state", name_of_value(update.value));
      const auto user = [&] { return "the update of " + name_of_value(update.value); };
      if (!is_region(update.region)) broken("{} is in region {}, which does not exist", user(), update.region);
      RegionId& earlier = updated[index_of(update.value)];
      if (earlier != kNoRegion && graph_.region(update.region).branch != earlier)
        broken("{} is the second one", user());
      earlier = update.region;
      check_exists(update.next, user);
    }
  }

  const Graph& graph_;
  const Schedule* schedule_ = nullptr;
  std::vector<RegionId> homes_;  ///< by value: the region that defines it, once it has been defined
  std::vector<bool> is_over_;    ///< by value: a state whose updating region has ended
};

}  // namespace

void verify(const Graph& graph) { Verifier(graph).run(); }

}  // namespace headroom
