// split_setup: frame(pixels, text) { k = linear(text, w), y = attention(q(pixels), k) }
//    ->  setup(text) { kept.0 = linear(text, w) }, frame(pixels, text, kept.0) { y = attention(q(pixels), kept.0) }
//
// A live stream runs one graph per frame, and between frames little changes but the pixels. Values that depend on the
// prompt, the noise and the levels stay the same until the user changes these. For a U-Net with a prompt these are
// all keys and values of cross-attention and the whole time embedding.
//
// Nodes that read only weights, other inputs and moved values are moved, in whatever region they are: their value is
// the same in every iteration, and nodes have no side effects. Views stay, since they cost nothing inside a graph,
// and a copy as an output. Channels-last images stay too, because values passed between programs are row-major. Packed
// weights are unpacked where their matmul is: a result that another program keeps would be no longer packed. If all
// nodes of a region would move, they stay, since an empty region would get another position.

#include "passes/split_setup.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "ir/op_definition.hpp"

namespace headroom {
namespace {

class Splitter {
 public:
  Splitter(Graph& graph, std::span<const std::string> fresh)
      : graph_(graph),
        is_weight_(find_weight_values(graph)),
        is_unpacked_(graph.value_count(), false),
        settles_(is_weight_),
        stays_whole_(graph.regions().size()) {
    for (const std::string& name : fresh)
      if (graph.find(ValueKind::kInput, name) == kNoValue)
        throw std::logic_error(fmt::format("the graph {} has no input called {}", graph.name(), name));
    for (const ValueId input : graph.values_of(ValueKind::kInput))
      settles_[index_of(input)] = std::ranges::find(fresh, graph.value(input).name) == fresh.end();
    for (const Node& node : graph.nodes()) {
      const bool settles = std::ranges::all_of(node.inputs, [&](ValueId value) { return settles_[index_of(value)]; });
      const bool has_weights_alone = std::ranges::all_of(
          node.inputs, [&](ValueId value) { return is_weight_[index_of(value)] || is_unpacked_[index_of(value)]; });
      for (const ValueId result : node.results) {
        settles_[index_of(result)] = settles;
        is_unpacked_[index_of(result)] = has_weights_alone && !is_weight_[index_of(result)];
      }
    }
  }

  std::optional<Graph> split() {
    do {
      sort_out();
    } while (keeps_another_region());
    if (kept_.empty()) return std::nullopt;
    Graph setup = build_setup();
    leave();
    return setup;
  }

 private:
  [[nodiscard]] bool is_any(const std::vector<bool>& of, const Node& node) const {
    return std::ranges::any_of(node.results, [&](ValueId result) { return of[index_of(result)]; });
  }

  [[nodiscard]] bool may_leave(const Node& node) const {
    if (is_weight_[index_of(node.results[0])] || !settles_[index_of(node.results[0])]) return false;
    for (RegionId region = node.region; region > kTopRegion; region = graph_.region(region).parent)
      if (stays_whole_[index_of(region)]) return false;
    return true;
  }

  /// Whether a node's result can be passed from one program to another.
  [[nodiscard]] bool can_be_kept(const Node& node) const {
    return !is_view(node.op) && !is_unpacked_[index_of(node.results[0])] &&
           std::ranges::none_of(node.results,
                                [&](ValueId result) { return graph_.type(result).layout == Layout::kChannelsLast; });
  }

  /// In reverse order of reading: determines the nodes to move, and which of their results the remaining nodes read.
  void sort_out() {
    const std::span<const Node> nodes = graph_.nodes();
    leaves_.assign(nodes.size(), false);
    std::vector<bool> is_read(graph_.value_count(), false);
    for (const ValueId value : reads_outside_nodes(graph_)) is_read[index_of(value)] = true;
    for (std::size_t i = nodes.size(); i-- > 0;) {
      const Node& node = nodes[i];
      leaves_[i] = may_leave(node) && (!is_any(is_read, node) || can_be_kept(node));
      if (leaves_[i] || is_weight_[index_of(node.results[0])]) continue;
      for (const ValueId input : node.inputs) is_read[index_of(input)] = true;
    }
    kept_.clear();
    for (std::size_t i = 0; i < nodes.size(); ++i)
      for (const ValueId result : nodes[i].results)
        if (leaves_[i] && is_read[index_of(result)]) kept_.push_back(result);
  }

  /// Whether a region would be left without nodes; then it stays unchanged, and the nodes must be sorted again.
  bool keeps_another_region() {
    std::vector<bool> has_nodes(graph_.regions().size(), false), has_some_left = has_nodes;
    for (std::size_t i = 0; i < leaves_.size(); ++i)
      for (RegionId region = graph_.nodes()[i].region; region > kTopRegion; region = graph_.region(region).parent) {
        has_nodes[index_of(region)] = true;
        if (!leaves_[i]) has_some_left[index_of(region)] = true;
      }
    bool found = false;
    for (std::size_t region = 0; region < has_nodes.size(); ++region) {
      if (!has_nodes[region] || has_some_left[region]) continue;
      stays_whole_[region] = found = true;
    }
    return found;
  }

  /// The moved nodes that are needed for kept values, with the weights that they read.
  [[nodiscard]] Graph build_setup() const {
    std::vector<bool> is_needed(graph_.value_count(), false);
    for (const ValueId kept : kept_) is_needed[index_of(kept)] = true;
    const std::span<const Node> nodes = graph_.nodes();
    for (auto node = nodes.rbegin(); node != nodes.rend(); ++node)
      if (is_any(is_needed, *node))
        for (const ValueId input : node->inputs) is_needed[index_of(input)] = true;

    Graph setup(graph_.name() + "_setup");
    std::vector<ValueId> made(graph_.value_count(), kNoValue);  // in the setup, by value of the graph
    for (const ValueKind kind : {ValueKind::kInput, ValueKind::kParam})
      for (const ValueId value : graph_.values_of(kind))
        if (is_needed[index_of(value)])
          made[index_of(value)] = kind == ValueKind::kInput
                                      ? setup.add_input(graph_.value(value).name, graph_.type(value))
                                      : setup.add_param(graph_.value(value).name, graph_.type(value));
    std::vector<Node> copies;
    for (const Node& node : nodes) {
      if (!is_any(is_needed, node)) continue;
      std::vector<ValueId> inputs;
      for (const ValueId input : node.inputs) inputs.push_back(made[index_of(input)]);
      copies.push_back(setup.make_node(node.op, std::move(inputs), node.attributes, node.path, kTopRegion));
      for (std::size_t i = 0; i < node.results.size(); ++i) {
        made[index_of(node.results[i])] = copies.back().results[i];
        setup.set_layout(copies.back().results[i], graph_.type(node.results[i]).layout);
      }
    }
    setup.set_nodes(std::move(copies));
    for (std::size_t i = 0; i < kept_.size(); ++i) setup.add_output(name_of_kept(i), made[index_of(kept_[i])]);
    return setup;
  }

  /// Replaces kept values by inputs in the remaining graph.
  void leave() {
    std::vector<Node> nodes = graph_.take_nodes(), staying;
    for (std::size_t i = 0; i < nodes.size(); ++i)
      if (!leaves_[i]) staying.push_back(std::move(nodes[i]));
    std::vector<ValueId> now(graph_.value_count(), kNoValue);  // by value: the one read in its place
    for (std::size_t i = 0; i < kept_.size(); ++i) {
      ValueId& given = now[index_of(kept_[i])];
      given = graph_.add_input(name_of_kept(i), graph_.type(kept_[i]));
      graph_.replace_uses(kept_[i], given);  // by readers that are not nodes; the schedule is here
    }
    for (Node& node : staying)
      for (ValueId& input : node.inputs)
        if (now[index_of(input)] != kNoValue) input = now[index_of(input)];
    graph_.set_nodes(std::move(staying));
  }

  static std::string name_of_kept(std::size_t i) { return fmt::format("kept.{}", i); }

  Graph& graph_;
  std::vector<bool> is_weight_;
  std::vector<bool> is_unpacked_;  // made of weights alone, in every run
  std::vector<bool> settles_;      // by value: depends on weights and inputs that are not fresh
  std::vector<bool> stays_whole_;  // by region
  std::vector<bool> leaves_;       // by node
  std::vector<ValueId> kept_;      // results of moved nodes that the remaining part reads
};

}  // namespace

std::optional<Graph> split_setup(Graph& graph, std::span<const std::string> fresh) {
  return Splitter(graph, fresh).split();
}

}  // namespace headroom
