#include "autodiff/differentiate.hpp"

#include <algorithm>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "autodiff/formula.hpp"
#include "base/error.hpp"
#include "ir/expand.hpp"
#include "ir/op_definition.hpp"
#include "ir/ops/gradient_parts.hpp"

namespace headroom {
namespace {

bool has_gradient(DType dtype) { return is_float(dtype) && size_of(dtype) > 1; }

/// The values and nodes between `wrt` and the loss: what depends on the former, and what the latter depends on.
class Between {
 public:
  Between(const Graph& graph, RegionId region, ValueId loss, std::span<const ValueId> wrt)
      : graph_(graph), region_(region), depends_(graph.value_count(), false), counts_(graph.value_count(), false) {
    follow_forwards(wrt);
    follow_backwards(loss);
  }

  /// Whether the loss depends on the value, and the value on one of `wrt`.
  [[nodiscard]] bool holds(ValueId value) const { return depends_[index_of(value)] && counts_[index_of(value)]; }
  [[nodiscard]] bool holds(const Node& node) const {
    return std::ranges::any_of(node.results, [&](ValueId result) { return holds(result); });
  }

  /// Throws Error if one of the nodes, or a region, has no derivative.
  void check() const {
    for (const Region& region : graph_.regions())
      for (const RegionResult& result : region.results)
        if (holds(result.value))
          fail(
              "the loss depends on a result of a {}, and derivatives are those of straight lines: a loop would need "
              "the values of all its iterations. Take the derivative inside of it, or inline it",
              region.kind == RegionKind::kLoop ? "loop" : "branch");
    for (const Node& node : graph_.nodes())
      if (holds(node)) check(node);
  }

 private:
  /// A value depends on `wrt` if it is one of them, or made of one that does; integers and truth values do not. Within
  /// a loop a state depends on what the iteration before made of it.
  void follow_forwards(std::span<const ValueId> wrt) {
    bool grows = false;
    const auto depends = [&](ValueId value) { return value != kNoValue && depends_[index_of(value)]; };
    const auto mark = [&](ValueId value) {
      grows |= !depends(value);
      depends_[index_of(value)] = true;
    };
    std::ranges::for_each(wrt, mark);
    while (std::exchange(grows, false)) {
      for (const Node& node : graph_.nodes())
        if (std::ranges::any_of(node.inputs, depends))
          for (const ValueId result : node.results)
            if (is_float(graph_.type(result).dtype)) mark(result);
      for (const Region& region : graph_.regions())
        for (const RegionResult& result : region.results)
          if (depends(result.from) || depends(result.otherwise)) mark(result.value);
      for (const StateUpdate& update : graph_.state_updates())
        if (depends(update.next) && !is_within(graph_, region_, update.region)) mark(update.value);
    }
  }

  void follow_backwards(ValueId loss) {
    counts_[index_of(loss)] = true;
    const std::span<const Node> nodes = graph_.nodes();
    for (std::size_t i = nodes.size(); i-- > 0;)
      if (holds(nodes[i]))
        for (const ValueId input : nodes[i].inputs) counts_[index_of(input)] = true;
  }

  void check(const Node& node) const {
    const auto reads_now = [&](ValueId input) { return reads_alike(graph_, input, region_, node.region); };
    if (!is_within(graph_, region_, node.region) || !std::ranges::all_of(node.inputs, reads_now))
      fail("{} is in another region than the derivative", describe(node));
    const std::string_view reason = definition_of(node.op).no_derivative;
    if (!reason.empty()) fail("{} has no derivative: it {}", describe(node), reason);
    for (const std::vector<ValueId>* values : {&node.inputs, &node.results})
      for (const ValueId value : *values) {
        const TensorType& type = graph_.type(value);
        if (!holds(value)) continue;
        if (type.layout != Layout::kRowMajor)
          fail("{} has an operand or a result {}; derivatives are taken of row-major images", describe(node), type);
        if (!has_gradient(type.dtype)) fail("{}: {} has too few bits for a gradient", describe(node), type);
      }
  }

  const Graph& graph_;
  RegionId region_;
  std::vector<bool> depends_, counts_;
};

/// The gradients of values, as far as they are known.
class Gradients {
 public:
  explicit Gradients(Builder& builder) : builder_(builder), terms_(builder.graph().value_count()) {}

  void add(ValueId value, ValueId gradient) {
    if (gradient == kNoValue) return;
    HR_CHECK(builder_.graph().type(gradient) == builder_.graph().type(value));
    terms_[index_of(value)].push_back(gradient);
  }

  /// The sum, once all that reads the value was seen; kNoValue for 0. More than two terms are added in f32 or wider,
  /// and rounded once.
  [[nodiscard]] ValueId total(ValueId value) {
    std::vector<ValueId>& terms = terms_[index_of(value)];
    if (terms.empty()) return kNoValue;
    if (terms.size() > 1)
      if (const ValueId whole = join_parts(value, terms); whole != kNoValue) terms = {whole};
    const DType dtype = builder_.dtype(value);
    const DType working = terms.size() > 2 ? ops::summing_dtype(dtype) : dtype;
    ValueId sum = terms[0];
    for (std::size_t i = 1; i < terms.size(); ++i)
      sum = builder_.add(builder_.cast(sum, working), builder_.cast(terms[i], working));
    terms = {builder_.cast(sum, dtype)};
    return terms[0];
  }

 private:
  /// The only axis that a node pads, with zeros; -1 if it is no such node.
  static int padded_axis(const Node* node) {
    if (node == nullptr || node->op != Op::kPad || node->attributes[attr::kValue] != 0) return -1;
    const Ints &before = node->attributes[attr::kBefore], &after = node->attributes[attr::kAfter];
    int found = -1;
    for (std::size_t axis = 0; axis < before.size(); ++axis) {
      if (before[axis] == 0 && after[axis] == 0) continue;
      if (found >= 0) return -1;
      found = static_cast<int>(axis);
    }
    return found;
  }

  /// Gradients of slices that lie side by side and cover the value are concatenated instead of added; kNoValue for
  /// others.
  [[nodiscard]] ValueId join_parts(ValueId value, const std::vector<ValueId>& terms) {
    std::map<std::int64_t, ValueId> parts;  // by their place
    int axis = -1;
    for (const ValueId term : terms) {
      const Node* const node = maker_of(term);
      const int own = padded_axis(node);
      if (own < 0 || (axis >= 0 && own != axis)) return kNoValue;
      axis = own;
      parts.emplace(node->attributes[attr::kBefore][static_cast<std::size_t>(axis)], node->inputs[0]);
    }
    std::int64_t end = 0;
    std::vector<ValueId> in_order;
    for (const auto& [begin, part] : parts) {
      if (begin != end) return kNoValue;
      end += builder_.shape(part)[axis];
      in_order.push_back(part);
    }
    const bool is_whole = parts.size() == terms.size() && end == builder_.shape(value)[axis];
    return is_whole ? builder_.concat(std::move(in_order), axis) : kNoValue;
  }

  [[nodiscard]] const Node* maker_of(ValueId value) const {
    const std::span<const Node> nodes = builder_.graph().nodes();
    for (std::size_t i = nodes.size(); i-- > 0;)
      if (std::ranges::count(nodes[i].results, value)) return &nodes[i];
    return nullptr;
  }

  Builder& builder_;
  std::vector<std::vector<ValueId>> terms_;
};

/// Restores a builder's path.
class PathKeeper {
 public:
  explicit PathKeeper(Builder& builder) : builder_(builder), path_(builder.path()) {}
  ~PathKeeper() { builder_.set_path(std::move(path_)); }
  PathKeeper(const PathKeeper&) = delete;
  PathKeeper& operator=(const PathKeeper&) = delete;

 private:
  Builder& builder_;
  std::string path_;
};

/// An epilogue has no rule; a fused op may have one.
bool is_differentiated_by_definition(const Node& node) {
  const OpDefinition& row = definition_of(node.op);
  const bool has_rule = schema_of(node.op).fused && row.derive != nullptr &&
                        (row.derives == nullptr || row.derives(node.attributes, node.inputs.size()));
  return is_fused(node.op, node.attributes) && !has_rule;
}

/// Replaces fused nodes in between that have no rule of their own, until none is left.
void write_out_definitions(Graph& graph, RegionId region, ValueId loss, std::span<const ValueId> wrt) {
  for (;;) {
    const Between between(graph, region, loss, wrt);
    between.check();
    std::vector<bool> replaces;
    for (const Node& node : graph.nodes())
      replaces.push_back(between.holds(node) && is_differentiated_by_definition(node));
    if (!std::ranges::count(replaces, true)) return;
    replace_by_definitions(graph, replaces);
  }
}

std::vector<ValueId> derive(Builder& builder, const Node& node, const Derivation& derivation) {
  if (has_formula(node.op)) return derive_formula(builder, node.op, derivation);
  const auto rule = definition_of(node.op).derive;
  HR_CHECK(rule != nullptr);
  std::vector<ValueId> gradients = rule(builder, derivation);
  HR_CHECK_EQ(gradients.size(), node.inputs.size());
  return gradients;
}

/// Adds the gradients of the operands of a node, all of whose results' gradients are known.
void derive_node(Builder& builder, const Node& node, const Between& between, Gradients& gradients) {
  builder.set_path(node.path.empty() ? "backward" : "backward." + node.path);
  std::vector<ValueId> made;
  for (const ValueId result : node.results) made.push_back(gradients.total(result));
  if (std::ranges::all_of(made, [](ValueId gradient) { return gradient == kNoValue; })) return;
  std::vector<bool> wanted;
  for (const ValueId input : node.inputs) wanted.push_back(between.holds(input));
  const std::vector<ValueId> of_operands =
      derive(builder, node, {node.attributes, node.inputs, node.results, made, wanted});
  for (std::size_t i = 0; i < node.inputs.size(); ++i)
    if (wanted[i]) gradients.add(node.inputs[i], of_operands[i]);
}

/// Drops the nodes from `first` on that none of `read` depends on.
void drop_unread(Graph& graph, std::size_t first, std::span<const ValueId> read) {
  std::vector<bool> is_read(graph.value_count(), false);
  for (const ValueId value : read) is_read[index_of(value)] = true;
  std::vector<Node> nodes = graph.take_nodes();
  const auto stays = [&](const Node& node) {
    return std::ranges::any_of(node.results, [&](ValueId result) { return is_read[index_of(result)]; });
  };
  for (std::size_t i = nodes.size(); i-- > first;)
    if (stays(nodes[i]))
      for (const ValueId input : nodes[i].inputs) is_read[index_of(input)] = true;
  const auto unread =
      std::remove_if(nodes.begin() + static_cast<std::ptrdiff_t>(first), nodes.end(), std::not_fn(stays));
  nodes.erase(unread, nodes.end());
  graph.set_nodes(std::move(nodes));
}

}  // namespace

std::vector<ValueId> differentiate(Builder& builder, ValueId loss, std::span<const ValueId> wrt) {
  Graph& graph = builder.graph();
  const TensorType of_loss = graph.type(loss);
  if (of_loss.shape.rank() != 0 || !has_gradient(of_loss.dtype))
    fail("the loss must be a scalar of a floating-point dtype, but is {}", of_loss);
  for (const ValueId value : wrt)
    if (!has_gradient(graph.type(value).dtype))
      fail("a derivative is taken with respect to floats of at least 16 bits, not {}", graph.type(value));

  const PathKeeper keeper(builder);
  write_out_definitions(graph, builder.region(), loss, wrt);
  const Between between(graph, builder.region(), loss, wrt);
  const std::size_t forward_nodes = graph.nodes().size();
  Gradients gradients(builder);
  builder.set_path("backward");
  if (between.holds(loss)) gradients.add(loss, builder.constant({1}, Shape{}, of_loss.dtype));
  for (std::size_t i = forward_nodes; i-- > 0;) {
    const Node node = graph.nodes()[i];  // the schedule grows
    if (between.holds(node)) derive_node(builder, node, between, gradients);
  }

  builder.set_path("backward");
  std::vector<ValueId> results;
  for (const ValueId value : wrt) {
    const ValueId total = gradients.total(value);
    results.push_back(total != kNoValue ? total : ops::zeros(builder, graph.type(value)));
  }
  drop_unread(graph, forward_nodes, results);
  return results;
}

}  // namespace headroom
