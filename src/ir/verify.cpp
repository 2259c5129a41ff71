#include "ir/verify.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "ir/infer.hpp"
#include "ir/schedule.hpp"

namespace headroom {
namespace {

/// Where a value comes to be: a node's results with that node, everything else before the first.
struct Definition {
  bool defined = false;
  RegionId region = kTopRegion;
  std::ptrdiff_t position = -1;  ///< index in graph.nodes()
};

/// One pass over a graph that throws at the first broken rule.
class Verifier {
 public:
  explicit Verifier(const Graph& graph) : graph_(graph), definitions_(graph.value_count()) {}

  void run() {
    check_regions();
    check_contiguity();
    define_declared_values();
    for (std::size_t i = 0; i < graph_.nodes().size(); ++i) check_node(i);
    check_state_updates();
    check_outputs();
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
    return value.kind == ValueKind::kResult ? fmt::format("%{}", static_cast<std::int32_t>(id)) : "%" + value.name;
  }

  [[nodiscard]] bool is_region(RegionId region) const {
    return region >= 0 && static_cast<std::size_t>(region) < graph_.regions().size();
  }

  void check_regions() const {
    const std::span<const Region> regions = graph_.regions();
    if (regions.empty() || regions[0].kind != RegionKind::kStraight || regions[0].parent != -1) {
      broken("region 0 must be the straight line of the program");
    }
    for (std::size_t i = 1; i < regions.size(); ++i) {
      const Region& region = regions[i];
      if (region.kind != RegionKind::kLoop) broken("region {} must be a loop", i);
      if (region.parent < 0 || static_cast<std::size_t>(region.parent) >= i) {
        broken("region {} must be nested in an earlier one, not in {}", i, region.parent);
      }
      if (region.trip_count < 1) broken("loop {} must run at least once, not {} times", i, region.trip_count);
      if (index_of(region.counter) >= graph_.value_count() ||
          graph_.value(region.counter).kind != ValueKind::kCounter) {
        broken("loop {} has no counter", i);
      }
      if (graph_.type(region.counter) != TensorType{DType::kI32, Shape{}}) {
        broken("the counter {} must be an i32 scalar", name_of_value(region.counter));
      }
    }
  }

  /// The nodes of each region, nested ones included, must stand together.
  void check_contiguity() {
    std::vector<std::ptrdiff_t> first(graph_.regions().size(), -1);
    last_.assign(graph_.regions().size(), -1);
    std::vector<std::ptrdiff_t> count(graph_.regions().size(), 0);
    for (std::size_t i = 0; i < graph_.nodes().size(); ++i) {
      const Node& node = graph_.nodes()[i];
      if (!is_region(node.region)) broken("{} is in region {}, which does not exist", describe(node), node.region);
      for (RegionId region = node.region; region >= 0;
           region = graph_.regions()[static_cast<std::size_t>(region)].parent) {
        const auto r = static_cast<std::size_t>(region);
        if (first[r] < 0) first[r] = static_cast<std::ptrdiff_t>(i);
        last_[r] = static_cast<std::ptrdiff_t>(i);
        ++count[r];
        if (last_[r] - first[r] + 1 != count[r])
          broken("{} continues region {}, which ended before it", describe(node), region);
      }
    }
    first_ = std::move(first);
  }

  void define_declared_values() {
    for (std::size_t i = 0; i < graph_.value_count(); ++i) {
      const ValueKind kind = graph_.value(static_cast<ValueId>(i)).kind;
      definitions_[i].defined = kind == ValueKind::kInput || kind == ValueKind::kParam || kind == ValueKind::kState;
    }
    for (std::size_t i = 1; i < graph_.regions().size(); ++i) {
      Definition& counter = definitions_[index_of(graph_.regions()[i].counter)];
      if (counter.defined) broken("{} counts two loops", name_of_value(graph_.regions()[i].counter));
      counter = Definition{true, static_cast<RegionId>(i), -1};
    }
  }

  void check_node(std::size_t index) {
    const Node& node = graph_.nodes()[index];
    const OpSchema& schema = schema_of(node.op);
    check_attributes(node, schema);
    std::vector<TensorType> input_types;
    for (const ValueId input : node.inputs) {
      check_use(input, node.region, describe(node));
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
    for (std::size_t i = 0; i < wanted.size(); ++i) define_result(node, index, node.results[i], wanted[i]);
  }

  void check_attributes(const Node& node, const OpSchema& schema) const {
    const auto given = node.attributes.all();
    bool match = given.size() == schema.attributes.size();
    for (std::size_t i = 0; match && i < given.size(); ++i) {
      match = given[i].first == schema.attributes[i].name &&
              given[i].second.index() == static_cast<std::size_t>(schema.attributes[i].kind);
    }
    if (!match) broken("{} has attributes that do not match its op", describe(node));
  }

  void define_result(const Node& node, std::size_t index, ValueId result, const TensorType& wanted) {
    if (index_of(result) >= graph_.value_count() || graph_.value(result).kind != ValueKind::kResult) {
      broken("{} makes {}, which is not a result value", describe(node), name_of_value(result));
    }
    if (definitions_[index_of(result)].defined)
      broken("{} makes {} a second time", describe(node), name_of_value(result));
    const TensorType& type = graph_.type(result);
    // The layout is a tag that passes choose; infer() only proposes one.
    if (type.dtype != wanted.dtype || type.shape != wanted.shape) {
      broken("{} makes {}{}, but its result {} is declared {}{}", describe(node), wanted.dtype, wanted.shape,
             name_of_value(result), type.dtype, type.shape);
    }
    definitions_[index_of(result)] = Definition{true, node.region, static_cast<std::ptrdiff_t>(index)};
  }

  /// A use in `region` sees what is defined so far in it or around it.
  void check_use(ValueId id, RegionId region, const std::string& user) const {
    if (index_of(id) >= graph_.value_count()) broken("{} reads {}, which does not exist", user, name_of_value(id));
    const Definition& definition = definitions_[index_of(id)];
    if (!definition.defined) broken("{} reads {} before it is defined", user, name_of_value(id));
    if (!is_within(graph_, region, definition.region)) {
      broken("{} reads {}, which exists only inside region {}", user, name_of_value(id), definition.region);
    }
  }

  void check_state_updates() const {
    std::vector<bool> updated(graph_.value_count(), false);
    for (const StateUpdate& update : graph_.state_updates()) {
      if (index_of(update.value) >= graph_.value_count() || graph_.value(update.value).kind != ValueKind::kState) {
        broken("{} is updated, but is not a state", name_of_value(update.value));
      }
      const std::string user = "the update of " + name_of_value(update.value);
      if (!is_region(update.region)) broken("{} is in region {}, which does not exist", user, update.region);
      if (updated[index_of(update.value)]) broken("{} is the second one", user);
      updated[index_of(update.value)] = true;
      check_use(update.next, update.region, user);
      check_made_in_time(update, user);
      const TensorType& state = graph_.type(update.value);
      const TensorType& next = graph_.type(update.next);
      if (state != next) {
        broken("{} must be {}{} like the state, not {}{}", user, state.dtype, state.shape, next.dtype, next.shape);
      }
    }
  }

  /// A loop may commit what a region around it made, but only before the loop began.
  void check_made_in_time(const StateUpdate& update, const std::string& user) const {
    const auto region = static_cast<std::size_t>(update.region);
    const std::ptrdiff_t made = definitions_[index_of(update.next)].position;
    if (first_[region] >= 0 && made > last_[region]) {
      broken("{} reads {}, which is made after its loop", user, name_of_value(update.next));
    }
  }

  void check_outputs() const {
    for (const Output& output : graph_.outputs()) check_use(output.value, kTopRegion, "the output " + output.name);
  }

  const Graph& graph_;
  std::vector<Definition> definitions_;
  std::vector<std::ptrdiff_t> first_;  ///< first node of each region, or -1
  std::vector<std::ptrdiff_t> last_;
};

}  // namespace

void verify(const Graph& graph) { Verifier(graph).run(); }

}  // namespace headroom
