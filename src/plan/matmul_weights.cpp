#include "plan/matmul_weights.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <set>

#include "base/text/format.hpp"
#include "ir/op_definition.hpp"

namespace headroom {
namespace {

class Origins {
 public:
  explicit Origins(const Graph& graph) : graph_(graph), producers_(find_producers(graph)) {}

  /// Adds the dtypes and block formats of the params that a value is made of, and whether blocks are unpacked at run
  /// time; false if it is made of something else.
  bool add(ValueId value, std::set<std::string>& stored, bool& is_packed) const {
    if (graph_.value(value).kind == ValueKind::kParam) {
      stored.emplace(name_of(graph_.type(value).dtype));
      return true;
    }
    const int at = producers_[index_of(value)];
    if (at < 0) return false;
    const Node& node = graph_.nodes()[static_cast<std::size_t>(at)];
    if (node.op == Op::kUnpackBlocks) {
      stored.insert(node.attributes[attr::kFormat]);
      is_packed = is_packed || is_computed_at_run(node);
      return true;
    }
    // A product with scales is stored as its first operand is.
    const bool is_of_first = node.op == Op::kMul || node.op == Op::kScaledLinear;
    const auto operands = is_of_first ? std::span(node.inputs).first(1) : std::span(node.inputs);
    return !operands.empty() &&
           std::ranges::all_of(operands, [&](ValueId input) { return add(input, stored, is_packed); });
  }

 private:
  const Graph& graph_;
  std::vector<int> producers_;
};

}  // namespace

std::string MatmulWeights::text() const {
  return fmt::format("{} with weights in {}{}, computed in {}", format_count(matmuls, "matmul"), stored,
                     is_packed ? ", packed" : "", computed);
}

std::vector<MatmulWeights> count_matmul_weights(const Graph& graph) {
  const std::vector<bool> is_weight = find_weight_values(graph);
  const Origins origins(graph);
  std::vector<MatmulWeights> counts;
  for (const Node& node : graph.nodes()) {
    if (!is_matmul(node.op) || is_weight[index_of(node.results[0])]) continue;
    std::set<std::string> stored;
    MatmulWeights one{.stored = {}, .computed = std::string(name_of(graph.type(node.input(Role::kWeight)).dtype))};
    if (!origins.add(node.input(Role::kWeight), stored, one.is_packed)) continue;
    one.stored = fmt::format("{}", fmt::join(stored, " and "));
    const auto known = std::ranges::find_if(counts, [&](const MatmulWeights& each) {
      return each.stored == one.stored && each.computed == one.computed && each.is_packed == one.is_packed;
    });
    ++(known == counts.end() ? counts.emplace_back(std::move(one)) : *known).matmuls;
  }
  std::ranges::stable_sort(counts, std::greater(), &MatmulWeights::matmuls);
  return counts;
}

}  // namespace headroom
