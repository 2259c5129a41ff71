#include "run/weights/folding_graph.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "ir/builder.hpp"

namespace headroom {
namespace {

/// Ops that change only the layout of elements.
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
    for (std::size_t p = 0; p < params.size(); ++p)  // declared before the terms of all
      copy_of(params[p]).rounded = graph_.add_input(param_input(p), weight_.type(params[p]));
    for (std::size_t p = 0; p < params.size(); ++p) {
      if (updates_[p] == nullptr || updates_[p]->terms.empty()) continue;
      const bool is_in_blocks = weight_.type(params[p]).dtype == DType::kU8;
      if (is_in_blocks)
        waiting_.emplace(params[p], p);  // until the blocks are unpacked
      else
        add_terms(params[p], p, b_.cast(copy_of(params[p]).rounded, DType::kF32));
    }
    for (const Node& node : weight_.nodes()) copy(node);
    for (const Output& output : weight_.outputs())
      if (waiting_.contains(output.value))
        fail("nothing can be added to weights that stay packed: give LoRA files without the switch packed");
    for (const Output& output : weight_.outputs()) graph_.add_output(output.name, rounded(output.value));
    return std::move(graph_);
  }

 private:
  /// A value of the weight's graph in this graph: in its dtype, and in f32 before rounding. One of the two may be
  /// missing.
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

  /// Inputs of a term's elements, by name.
  using Elements = std::map<std::string_view, ValueId>;

  Elements add_elements(const ParamTerm& term, std::size_t param, std::size_t number) {
    Elements elements;
    for (const auto& [name, view] : term.views())
      elements.emplace(name, graph_.add_input(term_input(param, number, name),
                                              TensorType{.dtype = view->dtype, .shape = view->shape}));
    return elements;
  }

  /// The matrix [n, k] of the factors; `prefix` is "" or "other.". It is multiplied by `scale` [1], unless that is
  /// missing.
  ValueId matrix(const Elements& elements, const std::string& prefix, ValueId scale) {
    const auto find = [&](std::string_view name) {
      const auto known = elements.find(prefix + std::string(name));
      return known == elements.end() ? kNoValue : b_.cast(known->second, DType::kF32);
    };
    ValueId up = find("up");  // [n, rank]
    if (scale != kNoValue) up = b_.mul(up, scale);
    const ValueId down = find("down");
    if (down == kNoValue) return up;
    const ValueId core = find("core");
    if (core == kNoValue) return b_.matmul(up, down);  // [n, k]
    const std::int64_t n = b_.shape(up)[0], rank = b_.shape(up)[1], s = b_.shape(core)[2], k = b_.shape(down)[1];
    const ValueId left = b_.matmul(up, b_.reshape(core, {rank, rank * s}));                  // [n, rank s]
    const ValueId turned = b_.transpose(b_.reshape(left, {n, rank, s}), {0, 2, 1});          // [n, s, rank]
    const ValueId product = b_.matmul(b_.reshape(turned, {n * s, rank}), down);              // [n s, k]
    return b_.reshape(b_.transpose(b_.reshape(product, {n, s, k}), {0, 2, 1}), {n, k * s});  // [n, k s]
  }

  /// a[p, q], b[r, s] -> [p r, q s]
  ValueId kronecker(ValueId a, ValueId b) {
    const std::int64_t p = b_.shape(a)[0], q = b_.shape(a)[1], r = b_.shape(b)[0], s = b_.shape(b)[1];
    return b_.reshape(b_.mul(b_.reshape(a, {p, 1, q, 1}), b_.reshape(b, {1, r, 1, s})), {p * r, q * s});
  }

  ValueId take_rows(ValueId x, const std::vector<RowRange>& rows) {
    if (rows.empty()) return x;
    std::vector<ValueId> parts;
    for (const RowRange& range : rows) parts.push_back(b_.slice(x, 0, range.first, range.count));
    return parts.size() == 1 ? parts.front() : b_.concat(std::move(parts), 0);
  }

  /// The value that a term adds, of the param's shape.
  ValueId added(const ParamTerm& term, const Elements& elements, ValueId scale, const Shape& shape) {
    ValueId update = matrix(elements, "", scale);
    if (term.join == ParamTerm::Join::kHadamard) update = b_.mul(update, matrix(elements, "other.", kNoValue));
    if (term.join == ParamTerm::Join::kKronecker) update = kronecker(update, matrix(elements, "other.", kNoValue));
    update = take_rows(update, term.rows);
    return b_.shape(update) == shape ? update : b_.reshape(update, {shape.dims().begin(), shape.dims().end()});
  }

  /// magnitude / norm of `x`, by rows or columns: a factor for a value of its shape, in the form [n, in, s].
  ValueId magnitude_ratio(ValueId x, ValueId magnitude) {
    const bool is_of_rows = b_.shape(magnitude)[1] == 1 && b_.shape(magnitude)[0] == b_.shape(x)[0];
    constexpr double kLeastNorm = 1e-30;  // zeros stay zeros
    const ValueId squares =
        b_.sum(b_.mul(x, x), is_of_rows ? std::vector<std::int64_t>{1, 2} : std::vector<std::int64_t>{0, 2});
    const ValueId norm = b_.clamp(b_.sqrt(squares), kLeastNorm, std::numeric_limits<float>::max());
    const std::int64_t count = b_.shape(norm)[0];
    const ValueId ratio = b_.div(b_.reshape(magnitude, {count}), norm);
    return is_of_rows ? b_.reshape(ratio, {count, 1, 1}) : b_.reshape(ratio, {1, count, 1});
  }

  /// Adds the terms of param `number` to a value of the weight's graph, which is `base` in f32.
  void add_terms(ValueId value, std::size_t number, ValueId base) {
    const TensorType& type = weight_.type(value);
    ValueId sum = base;
    const std::vector<ParamTerm>& terms = updates_[number]->terms;
    for (std::size_t t = 0; t < terms.size(); ++t) {
      const ValueId scale = graph_.add_input(term_input(number, t, "scale"), TensorType{.shape = {1}});
      const Elements elements = add_elements(terms[t], number, t);
      const ValueId update = added(terms[t], elements, scale, type.shape);
      sum = b_.add(sum, update);
      if (terms[t].magnitude)
        sum = decomposed(sum, b_.add(base, update), b_.cast(elements.at("magnitude"), DType::kF32));
    }
    copy_of(value) = {.rounded = type.dtype == DType::kF32 ? sum : kNoValue, .exact = sum};
  }

  /// DoRA: `sum` with the norms of `alone` replaced by magnitudes.
  ValueId decomposed(ValueId sum, ValueId alone, ValueId magnitude) {
    const Shape shape = b_.shape(sum);
    const std::vector<std::int64_t> dims(shape.dims().begin(), shape.dims().end());
    const std::vector<std::int64_t> flat = {dims[0], shape.rank() > 1 ? dims[1] : 1, -1};
    const ValueId ratio = magnitude_ratio(b_.reshape(alone, flat), magnitude);
    return b_.reshape(b_.mul(b_.reshape(sum, flat), ratio), dims);
  }

  void copy(const Node& node) {
    if (node.op == Op::kUnpackBlocks)
      if (const auto waiting = waiting_.find(node.inputs[0]); waiting != waiting_.end()) {
        const Attributes in_f32 = node.attributes.with(attr::kDType, DType::kF32);
        const ValueId base = graph_.append(node.op, {rounded(node.inputs[0])}, in_f32, "", kTopRegion);
        add_terms(node.results[0], waiting->second, base);
        return;
      }
    const bool reads_exact = std::ranges::any_of(node.inputs, [&](ValueId input) { return is_exact(input); });
    const bool keeps_exact = reads_exact && is_layout_change(node.op);
    const bool converts = reads_exact && weight_.type(node.results[0]).dtype != weight_.type(node.inputs[0]).dtype;
    const bool is_in_f32 = keeps_exact || converts;
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
  std::vector<Copy> copies_;                // by value of weight_
  std::map<ValueId, std::size_t> waiting_;  // params in blocks that have terms, with their numbers
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
