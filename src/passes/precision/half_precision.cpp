// bf16, fp16: z = linear(softmax(linear(x, w)), v)   (f32)
//    -> z = cast(linear(softmax(linear(cast(x, half), cast(w, half))), cast(v, half)), f32)   (half between the casts)
//
// The graph itself is converted, without casts around single ops. Contractions (linear, matmul, attention,
// convolutions) run in 16 bits, bf16 or f16, and so does every floating-point op that is downstream of one
// contraction and upstream of another. Ops before the first contraction and after the last stay in f32: embeddings of
// time and position, sums over a sampler's steps. A state that a loop carries does not count as a path from one
// step's last contraction to the next step's first. Each value is cast once, where it is made. Outputs and states
// keep their dtype; casts of weights are folded at load. Kernels accumulate in f32, so the error is that of storing
// values with 8 or 11 significant bits. Softmax reads and writes 16 bits as well, like PyTorch's math attention.

#include <algorithm>
#include <map>

#include "ir/op_definition.hpp"
#include "passes/pass.hpp"

namespace headroom {
namespace {

/// Whether operand `index` of a converted node is converted with it. A cast takes any dtype.
bool is_converted_operand(Op op, std::size_t index) { return !schema_of(op).operands.at(index).own_dtype; }

class HalfPrecision {
 public:
  HalfPrecision(Graph& graph, DType half)
      : graph_(graph), half_(half), is_weight_(find_weight_values(graph)), is_converted_(graph.value_count()) {}

  [[nodiscard]] bool has_contractions() const {
    return std::ranges::any_of(graph_.nodes(),
                               [&](const Node& node) { return is_running_gemm(node) && is_f32(node.results[0]); });
  }

  /// Returns the number of nodes converted.
  int run() {
    const int converted = choose();
    for (const Node& node : graph_.nodes()) note_casts(node);
    for (const ValueId read : reads_outside_nodes(graph_)) note_widening(read);
    rebuild();
    for (const auto& [value, wide] : widened_) graph_.replace_uses(value, wide);  // by readers that are not nodes
    graph_.set_nodes(std::move(schedule_));
    return converted;
  }

 private:
  [[nodiscard]] bool is_f32(ValueId value) const { return graph_.type(value).dtype == DType::kF32; }
  [[nodiscard]] bool is_running_gemm(const Node& node) const {
    return is_contraction(node.op) && !definition_of(node.op).stays_f32 && !is_weight_[index_of(node.results[0])];
  }
  [[nodiscard]] bool converts(const Node& node) const { return is_converted_[index_of(node.results[0])]; }

  /// Marks the results of the nodes to convert.
  int choose() {
    const std::span<const Node> nodes = graph_.nodes();
    std::vector<bool> leads_to_contraction(graph_.value_count());
    for (std::size_t i = nodes.size(); i-- > 0;) {
      const Node& node = nodes[i];
      const bool leads = is_running_gemm(node) || std::ranges::any_of(node.results, [&](ValueId result) {
                           return leads_to_contraction[index_of(result)];
                         });
      for (const ValueId input : node.inputs)
        leads_to_contraction[index_of(input)] = leads_to_contraction[index_of(input)] || leads;
    }
    int converted = 0;
    std::vector<bool> follows_contraction(graph_.value_count());
    for (const Node& node : nodes) {
      const bool is_gemm = is_running_gemm(node);
      const bool follows =
          std::ranges::any_of(node.inputs, [&](ValueId input) { return follows_contraction[index_of(input)]; });
      for (std::size_t i = 0; i < node.results.size(); ++i) {
        const ValueId result = node.results[i];
        follows_contraction[index_of(result)] = is_gemm || follows;
        const bool between = is_gemm || (follows && leads_to_contraction[index_of(result)]);
        const OpDefinition& known = definition_of(node.op);
        const bool is_narrow = !known.stays_f32 && i < static_cast<std::size_t>(known.narrow_results);
        is_converted_[index_of(result)] = between && is_narrow && is_f32(result);
      }
      if (converts(node)) ++converted;
    }
    return converted;
  }

  void note_widening(ValueId value) {
    if (is_converted_[index_of(value)]) widened_.emplace(value, kNoValue);
  }

  /// Records which of the node's operands must be read through a cast.
  void note_casts(const Node& node) {
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      const ValueId input = node.inputs[i];
      if (!converts(node)) {
        note_widening(input);
      } else if (!is_converted_operand(node.op, i)) {
        if (node.op != Op::kCast) note_widening(input);
      } else if (is_f32(input) && !is_converted_[index_of(input)]) {
        narrowed_.emplace(input, Cast{.path = node.path});
      }
    }
  }

  void rebuild() {
    for (auto& [value, cast] : narrowed_)
      if (graph_.value(value).kind == ValueKind::kParam) cast.result = push_cast(value, half_, cast.path, kTopRegion);
    bool at_start = true;
    for (Node& node : graph_.take_nodes()) {
      // Weights of a loop may still be computed inside it: inputs are cast before the loop, not between its nodes.
      if (at_start && (!is_weight_[index_of(node.results[0])] || node.region != kTopRegion)) {
        at_start = false;
        for (auto& [value, cast] : narrowed_)
          if (graph_.value(value).kind == ValueKind::kInput)
            cast.result = push_cast(value, half_, cast.path, kTopRegion);
      }
      push(std::move(node));
    }
  }

  /// Schedules a node with its operands in the dtypes it needs, then the casts of its results for other readers.
  void push(Node node) {
    const bool converted = converts(node);
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      const bool narrow = converted && (is_converted_operand(node.op, i) || node.op == Op::kCast);
      node.inputs[i] = narrow ? narrow_operand(node, i) : wide_operand(node.inputs[i]);
    }
    if (converted && node.op == Op::kCast) node.attributes = node.attributes.with(attr::kDType, half_);
    for (const ValueId result : node.results)
      if (is_converted_[index_of(result)]) graph_.set_dtype(result, half_);

    schedule_.push_back(node);
    for (const ValueId result : node.results) {
      if (const auto wide = widened_.find(result); wide != widened_.end())
        wide->second = push_cast(result, DType::kF32, node.path, node.region);
      if (const auto narrow = narrowed_.find(result); narrow != narrowed_.end())
        narrow->second.result = push_cast(result, half_, node.path, node.region);
    }
  }

  ValueId wide_operand(ValueId value) const { return is_converted_[index_of(value)] ? widened_.at(value) : value; }

  ValueId narrow_operand(const Node& node, std::size_t index) {
    const ValueId value = node.inputs[index];
    const auto cast = narrowed_.find(value);
    // No cast if it is in 16 bits already, is not a float, or may have any dtype.
    if (cast == narrowed_.end() || !is_converted_operand(node.op, index)) return value;
    if (cast->second.result != kNoValue) return cast->second.result;
    // No node makes it (a state, a region's result), so its cast belongs to the region that reads it.
    const auto [shared, is_new] = region_casts_.try_emplace({value, node.region}, kNoValue);
    if (is_new) shared->second = push_cast(value, half_, node.path, node.region);
    return shared->second;
  }

  ValueId push_cast(ValueId value, DType dtype, const std::string& path, RegionId region) {
    schedule_.push_back(
        graph_.make_node(Op::kCast, {value}, Attributes(Op::kCast, {{attr::kDType, dtype}}), path, region));
    return schedule_.back().results[0];
  }

  struct Cast {
    std::string path;           // the path of the first node that requests it
    ValueId result = kNoValue;  // set once the value to cast has been made by a node, or is available from the start
  };

  Graph& graph_;
  DType half_;
  std::vector<bool> is_weight_;         // by value
  std::vector<bool> is_converted_;      // by value: made in 16 bits instead of f32
  std::map<ValueId, ValueId> widened_;  // converted values that have readers in f32, and their cast
  std::map<ValueId, Cast> narrowed_;    // other f32 values that converted nodes read
  std::map<std::pair<ValueId, RegionId>, ValueId> region_casts_;
  std::vector<Node> schedule_;
};

PassOutcome to_half_precision(Graph& graph, DType half) {
  HalfPrecision conversion(graph, half);
  if (conversion.has_contractions()) return {.rewrites = conversion.run()};
  return {.declined = "the graph has no product in f32"};
}

}  // namespace

PassOutcome bf16(Graph& graph, const Target&) { return to_half_precision(graph, DType::kBF16); }

/// Three more mantissa bits than bfloat16, and a range of 65504: activations beyond it become infinite.
PassOutcome fp16(Graph& graph, const Target&) { return to_half_precision(graph, DType::kF16); }

}  // namespace headroom
