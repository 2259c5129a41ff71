// repeat-choices: c = where(mask, a, b), y = f(x, c), z = g(y, c)
//             ->  c = where(mask, a, b), y = f(x, c), d = where(mask, a, b), z = g(y, d)
//
// Elementwise ops whose operands are much smaller than their result, such as the choice of a vector for each token,
// are computed anew for each reader. fuse-rows then makes them part of the reader's kernel, which reads the small
// operands. With several readers it would write the result once and read it in each: the scale, shift and gate of all
// tokens that the blocks of FLUX.3 have in common are three times as large as a block's tokens.
//
// Only where kernels are generated, and only for readers that fuse-rows may fuse.

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "ir/op_definition.hpp"
#include "passes/pass.hpp"
#include "passes/rewrite.hpp"

namespace headroom {
namespace {

constexpr std::int64_t kLeastGrowth = 8;  // of the elements of a result over those of each operand

class ChoiceRepeater {
 public:
  explicit ChoiceRepeater(Graph& graph)
      : graph_(graph), is_weight_(find_weight_values(graph)), choice_(graph.value_count(), -1) {}

  int run() {
    nodes_ = graph_.take_nodes();
    std::vector<Node> made;
    int repeated = 0;
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      Node node = nodes_[i];
      if (is_choice(node)) choice_[index_of(node.results[0])] = static_cast<int>(i);
      if (may_hold(node) && !is_choice(node))
        for (ValueId& input : node.inputs) {
          if (!is_choice_value(input) || !may_repeat(input, node.region)) continue;
          if (std::exchange(is_read_[input], true)) {
            input = repeat(input, node, made);
            ++repeated;
          }
        }
      made.push_back(std::move(node));
    }
    graph_.set_nodes(std::move(made));
    return repeated;
  }

 private:
  bool is_choice_value(ValueId value) const {
    return index_of(value) < choice_.size() && choice_[index_of(value)] >= 0;
  }

  /// Whether fuse-rows may put a node into a body.
  bool may_hold(const Node& node) const {
    return !is_weight_[index_of(node.results[0])] &&
           (is_elementwise(node.op) || definition_of(node.op).goes_along_rows);
  }

  bool is_choice(const Node& node) const {
    if (node.results.size() != 1 || !is_elementwise(node.op) || is_weight_[index_of(node.results[0])]) return false;
    const std::int64_t size = graph_.type(node.results[0]).shape.numel();
    return std::ranges::all_of(node.inputs, [&](ValueId input) {
      return is_choice_value(input) || graph_.type(input).shape.numel() * kLeastGrowth <= size;
    });
  }

  /// Whether a value and the choices that it is made of are made in the reader's run of its region.
  bool may_repeat(ValueId value, RegionId reader) const {
    const Node& node = nodes_[static_cast<std::size_t>(choice_[index_of(value)])];
    return is_within(graph_, reader, node.region) && std::ranges::all_of(node.inputs, [&](ValueId input) {
             return !is_choice_value(input) || may_repeat(input, reader);
           });
  }

  /// The value made again, next to its reader.
  ValueId repeat(ValueId value, const Node& reader, std::vector<Node>& made) {
    const Node& node = nodes_[static_cast<std::size_t>(choice_[index_of(value)])];
    std::vector<ValueId> inputs = node.inputs;
    for (ValueId& input : inputs)
      if (is_choice_value(input)) input = repeat(input, reader, made);
    made.push_back(graph_.make_node(node.op, std::move(inputs), node.attributes, node.path, reader.region));
    return made.back().results[0];
  }

  Graph& graph_;
  std::vector<bool> is_weight_;
  std::vector<int> choice_;          // by value: the node that makes it, if it is one
  std::vector<Node> nodes_;          // as they were
  std::map<ValueId, bool> is_read_;  // by a node before
};

}  // namespace

PassOutcome repeat_choices(Graph& graph, const Target& target) {
  if (!obstacle_to(Capability::kGeneratedKernels, target).empty()) return {};
  return {.rewrites = ChoiceRepeater(graph).run()};
}

}  // namespace headroom
