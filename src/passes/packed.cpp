// packed: w = unpack_blocks(param), ..., y = linear(x, w)
//      -> ..., v = unpack_blocks(param) {at_run = 1}, y = linear(x, v)
//
// Weights in blocks of a few bits stay in device memory as they are in the file, and each is unpacked directly before
// its matmul, in every run. Its elements live until the matmul has read them, so the arena gives all weights the
// same memory. Merged weights are unpacked into their places of one. FP8 matmuls get E4M3 elements from the blocks at
// once, by the scales of rows that are folded when weights are loaded.
//
// Weights of other ops are folded, as all are without the switch, and so are weights in int8, whose rows only a kernel
// of their matmul packs for the CPU's matrix unit.

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <utility>

#include "ir/op_definition.hpp"
#include "passes/pass.hpp"

namespace headroom {

PassOutcome dead_code(Graph& graph, const Target& target);

namespace {

class Unpacking {
 public:
  explicit Unpacking(Graph& graph)
      : graph_(graph), is_weight_(find_weight_values(graph)), producers_(find_producers(graph)) {}

  PassOutcome run() {
    old_ = graph_.take_nodes();
    int rewrites = 0;
    for (const Node& node : old_) {
      if (is_matmul_of_weight(node) && unpack_weight(node))
        ++rewrites;
      else
        nodes_.push_back(node);
    }
    graph_.set_nodes(std::move(nodes_));
    PassOutcome outcome = outcome_of(rewrites, "no matmul reads a weight that is stored in blocks and can stay so");
    outcome.notes = std::move(notes_);
    return outcome;
  }

 private:
  [[nodiscard]] bool is_weight(ValueId value) const {
    return index_of(value) < is_weight_.size() && is_weight_[index_of(value)];
  }
  /// The node that makes a weight; null for a param.
  [[nodiscard]] const Node* producer(ValueId weight) const {
    const int at = producers_[index_of(weight)];
    return at < 0 ? nullptr : &old_[static_cast<std::size_t>(at)];
  }

  [[nodiscard]] bool is_matmul_of_weight(const Node& node) const {
    return is_matmul(node.op) && !is_weight(node.results[0]) && is_weight(node.input(Role::kWeight));
  }

  /// Why a weight is folded; empty if it is made of blocks by ops that cost nothing in every run, and nothing for a
  /// weight without blocks.
  [[nodiscard]] std::optional<std::string> obstacle(ValueId weight) const {
    const Node* const node = producer(weight);
    if (node == nullptr) return std::nullopt;
    if (node->op == Op::kUnpackBlocks) return "";
    std::optional<std::string> first;
    for (const ValueId input : node->inputs)
      if (std::optional<std::string> found = obstacle(input); found && (!first || first->empty())) first = found;
    if (!first || !first->empty()) return first;
    const DType made = graph_.type(node->results[0]).dtype;
    if (node->op == Op::kQuantize && made != DType::kF8E4M3) return fmt::format("its weight is quantized to {}", made);
    if (node->op == Op::kQuantize && !has_rows_in_blocks(node->inputs[0]))
      return "its weight is quantized, and has parts that are not stored in blocks";
    const bool is_joined = node->op == Op::kConcat && node->attributes[attr::kAxis] == 0;
    if (is_joined || node->op == Op::kReshape || node->op == Op::kCast || node->op == Op::kQuantize) return "";
    return fmt::format("its weight is changed by {}", name_of(node->op));
  }

  /// Whether every row of a weight is one of blocks, perhaps rounded.
  [[nodiscard]] bool has_rows_in_blocks(ValueId weight) const {
    const Node* const node = producer(weight);
    if (node == nullptr) return false;
    if (node->op != Op::kCast && node->op != Op::kConcat) return node->op == Op::kUnpackBlocks;
    return std::ranges::all_of(node->inputs, [&](ValueId input) { return has_rows_in_blocks(input); });
  }

  bool unpack_weight(const Node& matmul) {
    const ValueId weight = matmul.input(Role::kWeight);
    const std::optional<std::string> why_folded = obstacle(weight);
    if (!why_folded) return false;
    if (!why_folded->empty()) {
      note(notes_, *why_folded, matmul);
      return false;
    }
    at_ = &matmul;
    Node changed = matmul;
    const Node& made = *producer(weight);
    changed.inputs[position_of(matmul.op, Role::kWeight)] =
        made.op == Op::kQuantize ? quantized(made.inputs[0], made.results[1]) : unpacked(weight);
    nodes_.push_back(std::move(changed));
    return true;
  }

  ValueId emit(Op op, std::vector<ValueId> inputs, Attributes attributes) {
    nodes_.push_back(graph_.make_node(op, std::move(inputs), std::move(attributes), at_->path, at_->region));
    return nodes_.back().results[0];
  }

  /// The same value, computed before the matmul.
  ValueId unpacked(ValueId weight) {
    const Node* const node = producer(weight);
    if (node == nullptr) return weight;
    if (node->op == Op::kUnpackBlocks) return emit(node->op, node->inputs, node->attributes.with(attr::kAtRun, true));
    std::vector<ValueId> inputs;
    for (const ValueId input : node->inputs)
      inputs.push_back(obstacle(input).has_value() ? unpacked(input) : input);  // a part without blocks is folded
    return emit(node->op, std::move(inputs), node->attributes);
  }

  /// The elements of quantize(weight), of which the scale [n] is known, for a weight with rows in blocks.
  ValueId quantized(ValueId weight, ValueId scale) {
    const Node& node = *producer(weight);
    if (node.op == Op::kCast) return quantized(node.inputs[0], scale);
    if (node.op == Op::kUnpackBlocks)
      return emit(node.op, {node.inputs[0], scale},
                  node.attributes.with(attr::kAtRun, true).with(attr::kDType, DType::kF8E4M3));
    std::vector<ValueId> parts;
    std::int64_t first = 0;
    for (const ValueId part : node.inputs) {
      const std::int64_t rows = graph_.type(part).shape[0];
      const ValueId own =
          emit(Op::kSlice, {scale},
               Attributes(Op::kSlice, {{attr::kAxis, std::int64_t{0}}, {attr::kStart, first}, {attr::kExtent, rows}}));
      parts.push_back(quantized(part, own));
      first += rows;
    }
    return emit(node.op, std::move(parts), node.attributes);
  }

  Graph& graph_;
  std::vector<bool> is_weight_;
  std::vector<int> producers_;  // places in old_
  std::vector<Node> old_, nodes_;
  const Node* at_ = nullptr;  // the matmul
  std::vector<PassNote> notes_;
};

}  // namespace

PassOutcome packed(Graph& graph, const Target& target) {
  PassOutcome outcome = Unpacking(graph).run();
  if (outcome.rewrites > 0) static_cast<void>(dead_code(graph, target));  // weights that nothing reads any more
  return outcome;
}

}  // namespace headroom
