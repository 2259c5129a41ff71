#include "run/folding_graph.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "ir/builder.hpp"

namespace headroom {
namespace {

/// Ops that only say where elements lie.
bool is_layout_change(Op op) {
  return op == Op::kConcat || op == Op::kSlice || op == Op::kTranspose || op == Op::kReshape || op == Op::kPad;
}

class FoldingGraph {
 public:
  FoldingGraph(const Graph& weight, std::span<const ParamUpdate* const> updates)
      : weight_(weight), updates_(updates), graph_("weight"), b_(graph_), copies_(weight.value_count()) {}

  Graph build() {
    const std::vector<ValueId> params = weight_.values_of(ValueKind::kInput);
    HR_CHECK_EQ(params.size(), updates_.size());
    for (std::size_t p = 0; p < params.size(); ++p)  // declared in front of the terms of all
      copy_of(params[p]).rounded = graph_.add_input(param_input(p), weight_.type(params[p]));
    for (std::size_t p = 0; p < params.size(); ++p)
      if (updates_[p] != nullptr && !updates_[p]->terms.empty()) add_terms(params[p], p);
    for (const Node& node : weight_.nodes()) copy(node);
    for (const Output& output : weight_.outputs()) graph_.add_output(output.name, rounded(output.value));
    return std::move(graph_);
  }

 private:
  /// A value of the weight's graph here: as its dtype has it, and in f32 where it was not rounded yet. One of both may
  /// be missing.
  struct Copy {
    ValueId rounded = kNoValue;
    ValueId exact = kNoValue;
  };
  Copy& copy_of(ValueId value) { return copies_[index_of(value)]; }

  ValueId rounded(ValueId value) {
    Copy& copy = copy_of(value);
    if (copy.rounded == kNoValue) copy.rounded = b_.cast(copy.exact, weight_.type(value).dtype);
    return copy.rounded;
  }
  ValueId in_f32(ValueId value) {
    const Copy& copy = copy_of(value);
    return copy.exact != kNoValue ? copy.exact : b_.cast(copy.rounded, DType::kF32);
  }
  [[nodiscard]] bool is_exact(ValueId value) { return copy_of(value).exact != kNoValue; }

  ValueId read(const HostView& view, std::string name) {
    return b_.cast(graph_.add_input(std::move(name), TensorType{.dtype = view.dtype, .shape = view.shape}),
                   DType::kF32);
  }

  void add_terms(ValueId param, std::size_t number) {
    const TensorType& type = weight_.type(param);
    ValueId sum = b_.cast(copy_of(param).rounded, DType::kF32);
    const std::vector<ParamTerm>& terms = updates_[number]->terms;
    for (std::size_t t = 0; t < terms.size(); ++t) {
      const ValueId scale = graph_.add_input(term_input(number, t, "scale"), TensorType{.shape = {1}});
      ValueId added = b_.mul(read(terms[t].up, term_input(number, t, "up")), scale);                     // [n, rank]
      if (terms[t].down) added = b_.matmul(added, read(*terms[t].down, term_input(number, t, "down")));  // [n, k]
      if (!(b_.shape(added) == type.shape))
        added = b_.reshape(added, {type.shape.dims().begin(), type.shape.dims().end()});
      sum = b_.add(sum, added);
    }
    copy_of(param) = {.rounded = type.dtype == DType::kF32 ? sum : kNoValue, .exact = sum};
  }

  void copy(const Node& node) {
    const bool reads_exact = std::ranges::any_of(node.inputs, [&](ValueId input) { return is_exact(input); });
    const bool keeps_exact = reads_exact && is_layout_change(node.op);
    const bool is_in_f32 = keeps_exact || (reads_exact && (node.op == Op::kCast || node.op == Op::kQuantize));
    std::vector<ValueId> inputs;
    for (const ValueId input : node.inputs) inputs.push_back(is_in_f32 ? in_f32(input) : rounded(input));
    if (node.op == Op::kCast && b_.dtype(inputs[0]) == weight_.type(node.results[0]).dtype) {
      copy_of(node.results[0]) = {.rounded = inputs[0], .exact = reads_exact ? inputs[0] : kNoValue};
      return;
    }
    graph_.append(node.op, std::move(inputs), node.attributes, "", kTopRegion);
    const std::vector<ValueId> results = graph_.nodes().back().results;
    for (std::size_t i = 0; i < results.size(); ++i) {
      const TensorType& type = weight_.type(node.results[i]);
      graph_.set_layout(results[i], type.layout);
      Copy& copy = copy_of(node.results[i]);
      if (keeps_exact) copy.exact = results[i];
      if (!keeps_exact || type.dtype == DType::kF32) copy.rounded = results[i];
    }
  }

  const Graph& weight_;
  std::span<const ParamUpdate* const> updates_;
  Graph graph_;
  Builder b_;
  std::vector<Copy> copies_;  // by value of weight_
};

}  // namespace

std::string param_input(std::size_t param) { return fmt::format("p{}", param); }

std::string term_input(std::size_t param, std::size_t term, std::string_view what) {
  return fmt::format("{}.{}{}", param_input(param), what, term);
}

Graph folding_graph(const Graph& weight, std::span<const ParamUpdate* const> updates) {
  return FoldingGraph(weight, updates).build();
}

}  // namespace headroom
