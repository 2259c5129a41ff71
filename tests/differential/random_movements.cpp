// Ops that move values in scope, values without inputs, and all forms of attention.

#include <algorithm>
#include <cmath>

#include "differential/graph_maker.hpp"

namespace headroom::differential {
namespace {

constexpr std::int64_t kMostMoved = 8192;  // elements, so that graphs stay small

}  // namespace

/// Rows of a table, or sums into them, by indices from a separate input that is valid for that table.
void GraphMaker::add_indexed() {
  const ValueId table = choose_.one_in(3) ? operand(typed({dims_.seq, dims_.width()})) : tokens();
  const DType dtype = choose_.one_in(2) ? DType::kI32 : DType::kI64;
  const auto count = static_cast<std::int64_t>(choose_.below(4) + 1);
  const auto ids = [&](Shape shape) { return graph_.add_input(fresh("ids"), {dtype, shape}); };
  if (choose_.one_in(2)) {
    const Shape shape = choose_.one_in(4) ? Shape{} : choose_.one_in(2) ? Shape{count} : Shape{2, count};
    keep(b_.gather(table, ids(shape)), size(table));
    return;
  }
  TensorType updates = graph_.type(table);
  updates.shape.set(0, count);
  const ValueId added = operand(updates);
  keep(b_.scatter_add(table, ids({count}), added), size(table) + 2 * size(added));
}

void GraphMaker::add_padded() {
  const ValueId x = any();
  const TensorType type = graph_.type(x);
  const int rank = type.shape.rank();
  if (type.shape.numel() > kMostMoved || rank > 4) return add_unary();
  if (rank > 0 && choose_.one_in(2)) {
    std::vector<std::int64_t> before, after;
    for (int axis = 0; axis < rank; ++axis) {
      before.push_back(choose_.of({0, 0, 1, 2}));
      after.push_back(choose_.of({0, 0, 1, 3}));
    }
    keep(b_.pad(x, before, after, is_float(type.dtype) ? choose_.of({0.0, 0.5}) : 0.0), size(x) + 0.5);
    return;
  }
  std::vector<std::int64_t> extents = extents_of(type.shape);
  for (std::int64_t& extent : extents)
    if (extent == 1 && choose_.one_in(2)) extent = 3;
  if (choose_.one_in(2)) extents.insert(extents.begin(), 2);
  keep(b_.broadcast(x, Shape(extents)), size(x));
}

/// Constants, which are folded like weights, and random values, which are not.
void GraphMaker::add_values() {
  if (choose_.one_in(3)) {
    const ValueId keys = graph_.add_input(fresh("keys"), {DType::kI64, Shape{dims_.batch}});
    const ValueId offset = counters_.empty() || choose_.one_in(3)
                               ? graph_.add_input(fresh("offset"), {DType::kI32, Shape{}})
                               : choose_.from(counters_).first;
    const Shape image{dims_.seq, dims_.width()};
    keep(b_.cast(b_.random(keys, offset, image, choose_.one_in(2) ? Distribution::kNormal : Distribution::kUniform),
                 dtype_),
         1);
    return;
  }
  const bool is_one = choose_.one_in(2);
  const Shape shape = is_one || choose_.one_in(2) ? tokens_.shape : Shape{1, dims_.seq, dims_.width()};
  std::vector<double> values;
  for (std::int64_t i = 0; i < (is_one ? 1 : shape.numel()); ++i) values.push_back(choose_.of({0.1, -1.0, 0.0, 0.75}));
  const ValueId made = b_.constant(std::move(values), shape, dtype_);
  keep(choose_.one_in(3) ? made : b_.add(tokens(), made), 2);
}

/// Masks are inputs, so that rounding does not decide which keys a query attends to.
void GraphMaker::add_masked_attention() {
  const ValueId q = split_heads(tokens()), k = split_heads(tokens()), v = split_heads(tokens());  // [b, h, s, d]
  const std::int64_t kv_heads = dims_.heads % 2 == 0 && choose_.one_in(2) ? dims_.heads / 2 : dims_.heads;
  const auto shared = [&](ValueId heads) { return kv_heads == dims_.heads ? heads : b_.slice(heads, 1, 0, kv_heads); };
  const auto one_or = [&](std::int64_t extent) { return choose_.one_in(2) ? std::int64_t{1} : extent; };
  const Shape mask_shape{one_or(dims_.batch), one_or(dims_.heads), one_or(dims_.seq), dims_.seq};
  ValueId bias = kNoValue;
  if (choose_.one_in(3))
    bias = operand(typed(mask_shape));
  else if (choose_.one_in(2))
    bias = graph_.add_input(fresh("mask"), {DType::kBool, mask_shape});
  Builder::Attention with{.scale = 0.25, .bias = bias, .causal = choose_.one_in(3)};
  if (with.causal && choose_.one_in(2)) with.diagonal = choose_.of<std::int64_t>({-3, -1, 1, 2, dims_.seq});
  keep(dims_.seq > 1 && choose_.one_in(3) ? attend_in_parts(q, shared(k), shared(v), with)
                                          : b_.attention(q, shared(k), shared(v), with),
       size(v));
}

/// Attention over the keys before one of them, and over the others, merged.
ValueId GraphMaker::attend_in_parts(ValueId q, ValueId k, ValueId v, const Builder::Attention& with) {
  const std::int64_t cut = 1 + static_cast<std::int64_t>(choose_.below(static_cast<std::size_t>(dims_.seq - 1)));
  const int axis = choose_.of({0, 2});  // of the parts
  std::vector<ValueId> results, logs;
  for (const auto& [begin, count] : {std::pair{std::int64_t{0}, cut}, {cut, dims_.seq - cut}}) {
    const auto of_part = [&](ValueId value, int keys) { return b_.slice(value, keys, begin, count); };
    Builder::Attention part = with;
    if (part.causal) part.diagonal -= begin;
    if (part.bias != kNoValue) part.bias = of_part(part.bias, 3);
    const auto [result, log] = b_.attention_and_logsumexp(q, of_part(k, 2), of_part(v, 2), part);
    const auto with_axis = [&](ValueId value) {
      std::vector<std::int64_t> extents = extents_of(b_.shape(value));
      extents.insert(extents.begin() + axis, 1);
      return b_.reshape(value, std::move(extents));
    };
    results.push_back(with_axis(result));
    logs.push_back(with_axis(log));
  }
  return b_.merge_attention(b_.concat(std::move(results), axis), b_.concat(std::move(logs), axis), axis);
}

}  // namespace headroom::differential
