// Patterns that passes match, complete and with small changes that they must notice.

#include <cmath>

#include "differential/graph_maker.hpp"

namespace headroom::differential {
namespace {}  // namespace

/// [b, s, w] -> [b, h, s, d]
ValueId GraphMaker::split_heads(ValueId x) {
  const Shape shape = graph_.type(x).shape;
  const ValueId split = b_.reshape(x, {shape[0], shape[1], dims_.heads, dims_.head_dim});
  const ValueId heads = b_.transpose(split, {0, 2, 1, 3});
  sizes_[heads] = size(x);
  return heads;
}

/// x[..., k] -> [..., columns], by a weight and sometimes a bias.
ValueId GraphMaker::linear(ValueId x, std::int64_t columns, bool with_activation) {
  const ValueId w = weight(columns, graph_.type(x).shape[-1]);
  const ValueId bias = choose_.one_in(2) ? kNoValue : vector_weight(columns, dtype_, "bias");
  const bool is_fused = with_activation && choose_.one_in(6);
  const bool adds_bias = bias != kNoValue && graph_.type(bias).dtype == graph_.type(x).dtype && choose_.one_in(3);
  ValueId y = b_.linear(x, w,
                        {.bias = adds_bias ? kNoValue : bias,
                         .activation = is_fused ? choose_.of({Activation::kSilu, Activation::kGeluErf,
                                                              Activation::kGeluTanh, Activation::kRelu})
                                                : Activation::kNone});
  if (adds_bias) y = choose_.one_in(2) ? b_.add(y, bias) : b_.add(bias, y);
  sizes_[y] = size(x) + (bias == kNoValue ? 0 : 1);
  if (with_activation && !is_fused) {
    const double s = size(y);
    if (choose_.one_in(8)) visible_.push_back(y);  // has two readers
    y = choose_.one_in(3) ? b_.silu(y) : b_.gelu(y, choose_.one_in(2) ? "tanh" : "none");
    sizes_[y] = s;
  }
  return y;
}

void GraphMaker::add_linear() {
  const auto scope = b_.scope("proj");
  const ValueId y = linear(tokens(), choose_.of({dims_.width(), 2 * dims_.width(), dims_.head_dim}), choose_.one_in(3));
  keep(y, size(y));
  if (graph_.type(y).shape[-1] != dims_.width() && !choose_.one_in(3)) {
    const ValueId back = linear(y, dims_.width(), false);
    keep(back, size(back));
  }
}

ValueId GraphMaker::mlp(ValueId x) {
  const auto scope = b_.scope("mlp");
  ValueId hidden = kNoValue;
  {
    const auto in = b_.scope("in");
    hidden = linear(x, choose_.of({dims_.width(), 2 * dims_.width()}), true);
  }
  const auto out = b_.scope("out");
  return linear(hidden, dims_.width(), false);
}

void GraphMaker::add_mlp() {
  const ValueId y = mlp(tokens());
  keep(y, size(y));
}

/// Linears of sibling modules with a common input.
std::vector<ValueId> GraphMaker::projections(ValueId x, int count) {
  const auto scope = b_.scope("attn");
  const bool same_weights = !choose_.one_in(3);
  const bool biased = choose_.one_in(2);
  const DType stored = choose_.of({DType::kF32, DType::kBF16});
  const DType bias_dtype = choose_.one_in(3) ? DType::kF32 : dtype_;
  std::vector<ValueId> made;
  for (int i = 0; i < count; ++i) {
    const auto module = b_.scope(i == 0 ? "to_q" : i == 1 ? "to_k" : "to_v");
    const Shape shape{dims_.width(), graph_.type(x).shape[-1]};
    ValueId w = kNoValue;
    if (same_weights)
      w = b_.cast(graph_.add_param(fresh("w"), {stored, shape}), dtype_);
    else
      w = weight(shape[0], shape[1]);
    const bool has_bias = same_weights ? biased : choose_.one_in(2);
    const ValueId bias = has_bias ? graph_.add_param(fresh("bias"), {bias_dtype, Shape{shape[0]}}) : kNoValue;
    made.push_back(b_.linear(x, w, {.bias = bias}));
    sizes_[made.back()] = size(x) + (has_bias ? 1 : 0);
    if (choose_.one_in(10)) visible_.push_back(made.back());
  }
  return made;
}

void GraphMaker::add_projections() {
  for (const ValueId part : projections(tokens(), 2 + static_cast<int>(choose_.below(2)))) keep(part, size(part));
}

/// cos and sin [positions, head_dim / 2], shared by ops with the same number of positions.
std::pair<ValueId, ValueId> GraphMaker::rope_tables(std::int64_t positions) {
  const std::int64_t half = dims_.head_dim / 2;
  if (choose_.one_in(6)) {
    const TensorType type{DType::kF32, Shape{positions, half}};
    return {graph_.add_input(fresh("cos"), type), graph_.add_input(fresh("sin"), type)};
  }
  std::vector<std::int64_t> axes = {dims_.head_dim};
  if (dims_.head_dim > 2 && choose_.one_in(2)) axes = {2, dims_.head_dim - 2};
  const auto count = static_cast<std::int64_t>(axes.size());
  const std::string name = fmt::format("ids{}x{}", positions, count);
  const TensorType type{choose_.one_in(2) ? DType::kF32 : DType::kI32, Shape{positions, count}};
  ValueId ids = graph_.find(ValueKind::kInput, name);
  if (ids == kNoValue) ids = graph_.add_input(name, type);
  const auto [cos, sin] = b_.rope_table(ids, axes);
  return {cos, sin};
}

/// rms_norm of [b, h, s, d] by head.
ValueId GraphMaker::qk_norm(ValueId heads) {
  const ValueId y = b_.rms_norm(heads, vector_weight(dims_.head_dim, graph_.type(heads).dtype, "gain"), 1e-6);
  sizes_[y] = 1;
  return y;
}

/// scores[b, h, s, t] + bias[b or 1, h or 1, s or 1, t]
ValueId GraphMaker::biased(ValueId scores) {
  TensorType bias_type = graph_.type(scores);
  for (const int axis : {0, 1, 2})
    if (choose_.one_in(2)) bias_type.shape.set(axis, 1);
  if (choose_.one_in(4)) bias_type.layout = Layout::kChannelsLast;
  return laid(b_.add(scores, operand(bias_type)), Layout::kRowMajor);
}

/// q, k, v [b, h, s, d] -> [b, h, s, d], mostly in plain ops, with the scale in any of its positions.
ValueId GraphMaker::attend(ValueId q, ValueId k, ValueId v) {
  const double scale = 1 / std::sqrt(static_cast<double>(dims_.head_dim));
  if (choose_.one_in(5)) return b_.attention(q, k, v, {.scale = scale});
  const std::size_t place = choose_.below(5);
  if (place == 0 || place == 3) q = b_.mul_scalar(q, place == 3 ? std::sqrt(scale) : scale);
  if (place == 1 || place == 3) k = b_.mul_scalar(k, place == 3 ? std::sqrt(scale) : scale);
  ValueId scores = kNoValue;  // [b, h, s, t]
  if (choose_.one_in(6))
    scores = b_.matmul(q, b_.transpose(choose_.one_in(4) ? laid(k, Layout::kChannelsLast) : k, {0, 1, 3, 2}), false);
  else
    scores = b_.matmul(q, k, true);
  if (place == 2) scores = b_.mul_scalar(scores, scale);
  if (choose_.one_in(6)) scores = biased(scores);
  const ValueId weights = b_.softmax(scores);
  if (choose_.one_in(10)) {  // has two readers
    sizes_[weights] = 0.3;
    visible_.push_back(weights);
  }
  return b_.matmul(weights, v);
}

/// Attention of one stream, or of two whose tokens are joined, as in a double block.
void GraphMaker::add_attention() {
  const ValueId image = tokens();
  const bool is_joint = choose_.one_in(2);
  const bool normed = !choose_.one_in(3);
  std::vector<ValueId> streams = {image};
  if (is_joint)
    streams.insert(streams.begin() + (choose_.one_in(2) ? 0 : 1),
                   operand(typed({dims_.batch, dims_.text, dims_.width()})));
  std::vector<std::vector<ValueId>> parts(3);  // q, k and v, by stream
  for (const ValueId stream : streams) {
    const std::vector<ValueId> qkv = projections(stream, 3);
    for (std::size_t i = 0; i < 3; ++i) {
      ValueId heads = split_heads(qkv[i]);
      if (normed && i < 2) heads = qk_norm(heads);
      parts[i].push_back(heads);
    }
  }
  std::int64_t total = 0;
  for (const ValueId stream : streams) total += graph_.type(stream).shape[1];
  std::vector<ValueId> joined;
  for (const auto& part : parts) joined.push_back(part.size() == 1 ? part[0] : b_.concat(part, 2));
  if (normed) {
    const auto [cos, sin] = rope_tables(total);
    joined[0] = b_.rope(joined[0], cos, sin);
    joined[1] = b_.rope(joined[1], cos, sin);
  } else {  // keeps the scores moderate
    const double s = size(image) + 1;
    if (s > 2) joined[0] = b_.mul_scalar(joined[0], 1 / (s * s));
  }
  const ValueId attended = b_.transpose(attend(joined[0], joined[1], joined[2]), {0, 2, 1, 3});
  const ValueId all = b_.reshape(attended, {dims_.batch, total, dims_.width()});
  sizes_[all] = size(image) + 1;
  if (!is_joint) {
    keep(all, size(all));
    return;
  }
  std::int64_t start = 0;
  for (const ValueId stream : streams) {
    const std::int64_t count = graph_.type(stream).shape[1];
    keep(b_.slice(all, 1, start, count), size(all));
    start += count;
  }
}

/// A batched vector operand, [b, 1, w].
ValueId GraphMaker::modulation() {
  const ValueId vector = operand(typed({dims_.batch, 1, dims_.width()}));
  return vector;
}

/// Vectors computed from the timestep, several by one matmul, as for the norms of a block.
void GraphMaker::add_modulation() {
  const auto scope = b_.scope("time");
  ValueId t = kNoValue;
  if (!counters_.empty() && !choose_.one_in(4)) {
    const auto [counter, trips] = choose_.from(counters_);
    t = b_.row(graph_.add_input(fresh("times"), {DType::kF32, Shape{trips, dims_.batch}}), counter);
  } else {
    const ValueId known = graph_.find(ValueKind::kInput, "time");
    t = known != kNoValue ? known : graph_.add_input("time", {DType::kF32, Shape{dims_.batch}});
  }
  const ValueId embedding = b_.cast(b_.timestep_embedding(t, 8, choose_.of({1.0, 10.0})), dtype_);
  sizes_[embedding] = 1;
  const ValueId hidden = linear(embedding, dims_.width(), true);
  const int parts = choose_.of({1, 2, 3});
  const ValueId all = linear(choose_.one_in(2) ? b_.silu(hidden) : hidden, parts * dims_.width(), false);
  for (const ValueId part : b_.chunk(all, parts, 1)) keep(b_.reshape(part, {dims_.batch, 1, dims_.width()}), size(all));
}

/// layer_norm(x) * (1 + scale) + shift, in any order of operands.
ValueId GraphMaker::normed(ValueId x) {
  const ValueId scale = modulation(), shift = modulation();
  const ValueId norm = b_.layer_norm(x, choose_.of({1e-6, 1e-5}));
  const ValueId factor = b_.add_scalar(scale, choose_.one_in(12) ? 0.5 : 1.0);
  const ValueId scaled = choose_.one_in(2) ? b_.mul(norm, factor) : b_.mul(factor, norm);
  if (choose_.one_in(12)) visible_.push_back(norm);
  const ValueId y = choose_.one_in(2) ? b_.add(scaled, shift) : b_.add(shift, scaled);
  sizes_[y] = 1 + size(scale) + size(shift);
  return y;
}

void GraphMaker::add_norm_modulate() {
  const ValueId y = normed(tokens());
  keep(y, size(y));
}

/// residual + gate * x, in any order of operands.
ValueId GraphMaker::gated(ValueId residual, ValueId x) {
  const ValueId gate = modulation();
  const ValueId product = choose_.one_in(2) ? b_.mul(gate, x) : b_.mul(x, gate);
  const ValueId y = choose_.one_in(2) ? b_.add(residual, product) : b_.add(product, residual);
  sizes_[y] = size(residual) + size(gate) * size(x);
  return y;
}

void GraphMaker::add_gate_residual() {
  const ValueId y = gated(tokens(), tokens());
  const ValueId kept = keep(y, size(y));
  if (choose_.one_in(2)) {
    const ValueId norm = normed(kept);
    keep(norm, size(norm));
  }
}

/// A transformer block: attention and MLP, each between a norm and a gate.
void GraphMaker::add_block() {
  const auto scope = b_.block(fresh("block"));
  const ValueId x = tokens();
  const std::vector<ValueId> qkv = projections(normed(x), 3);
  const ValueId attended = attend(qk_norm(split_heads(qkv[0])), qk_norm(split_heads(qkv[1])), split_heads(qkv[2]));
  const ValueId joined = b_.reshape(b_.transpose(attended, {0, 2, 1, 3}), extents_of(tokens_.shape));
  sizes_[joined] = size(qkv[2]);
  const ValueId out = choose_.one_in(3) ? joined : linear(joined, dims_.width(), false);
  ValueId sum = gated(x, out);
  sum = tame(sum, size(sum));
  const ValueId y = gated(sum, mlp(normed(sum)));
  keep(y, size(y));
}

/// A matmul of quantized operands, in the form of a graph that was converted before.
void GraphMaker::add_quantized() {
  const ValueId x = tokens();
  const DType narrow = device_ == DeviceKind::kCpu ? DType::kI8 : DType::kF8E4M3;
  const auto [q, scale] = b_.quantize(x, narrow);
  if (choose_.one_in(3)) {  // and back, by explicit ops
    const ValueId rows = b_.reshape(scale, {dims_.batch, dims_.seq, 1});
    keep(b_.cast(b_.mul(b_.cast(q, DType::kF32), rows), dtype_), size(x));
    return;
  }
  const std::int64_t columns = choose_.of({dims_.width(), 2 * dims_.width()});
  ValueId wq = kNoValue, w_scale = kNoValue;
  if (choose_.one_in(2)) {
    wq = graph_.add_param(fresh("q"), {narrow, Shape{columns, dims_.width()}});
    w_scale = graph_.add_param(fresh("scale"), {DType::kF32, Shape{columns}});
  } else {
    std::tie(wq, w_scale) = b_.quantize(weight(columns, dims_.width()), narrow);
  }
  std::vector<ValueId> inputs = {q, scale, wq, w_scale};
  if (choose_.one_in(2)) inputs.push_back(graph_.add_param(fresh("bias"), {DType::kF32, Shape{columns}}));
  const ValueId y =
      b_.emit(Op::kScaledLinear, inputs,
              {{attr::kEpilogue, Epilogue(choose_.of({Activation::kNone, Activation::kSilu, Activation::kGeluErf,
                                                      Activation::kGeluTanh, Activation::kRelu}))},
               {attr::kDType, dtype_}})[0];
  keep(y, size(x) + 1);
}

/// Several tables of which a loop reads one row each, as hoisting leaves them or as it can lift out: rows added one
/// by one, or concatenated first.
void GraphMaker::add_rows_of_tables() {
  if (counters_.empty()) return add_modulation();
  const auto [counter, trips] = choose_.from(counters_);
  const bool are_made = choose_.one_in(2), are_joined = choose_.one_in(3);
  std::vector<ValueId> rows;  // [b, 1, w] or [b, 1, 1]
  for (int i = 2 + static_cast<int>(choose_.below(2)); i > 0; --i) {
    const std::int64_t width = !are_joined && choose_.one_in(4) ? 1 : dims_.width();
    const ValueId table = graph_.add_input(fresh("table"), typed({trips, dims_.batch, 1, width}));
    rows.push_back(b_.row(are_made ? b_.silu(table) : table, counter));
  }
  if (are_joined) {
    const std::int64_t count = static_cast<std::int64_t>(rows.size());
    const int axis = choose_.of({1, 2});
    const ValueId joined = b_.concat(rows, axis);
    const std::int64_t part = choose_.below(2) == 0 ? 0 : count - 1;
    const std::int64_t size = axis == 1 ? 1 : dims_.width();
    rows = {b_.slice(joined, axis, part * size, size)};
  }
  ValueId total = tokens();
  for (const ValueId row : rows) {
    const double s = size(total);
    total = choose_.one_in(2) ? b_.add(total, row) : b_.mul(row, total);
    sizes_[total] = s + 1;
  }
  keep(total, size(total));
}

}  // namespace headroom::differential
