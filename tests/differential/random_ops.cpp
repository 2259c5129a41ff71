// Single ops on values in scope.

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "differential/graph_maker.hpp"
#include "differential/unary_ops.hpp"

namespace headroom::differential {
namespace {

bool is_computed_in(DType dtype) { return dtype == DType::kF32 || dtype == DType::kBF16; }

}  // namespace

/// The other operand of the same shape, or one that broadcasts.
void GraphMaker::add_binary() {
  const ValueId a = choose_.one_in(3) ? any_real() : tokens();
  TensorType type = graph_.type(a);
  type.layout = Layout::kRowMajor;
  ValueId b = kNoValue;
  if (choose_.one_in(2)) {
    b = choose_.one_in(8) ? a : operand(type);
  } else {
    Shape shape;
    const int skipped = static_cast<int>(choose_.below(static_cast<std::size_t>(type.shape.rank()) + 1));
    for (int axis = skipped; axis < type.shape.rank(); ++axis)
      shape.push_back(choose_.one_in(2) ? 1 : type.shape[axis]);
    b = operand({type.dtype, shape});
  }
  const bool swaps = choose_.one_in(2);
  const ValueId left = swaps ? b : a, right = swaps ? a : b;
  const double of_sum = std::hypot(size(a), size(b));
  switch (choose_.below(4)) {
    case 0:
      keep(b_.sub(left, right), of_sum);
      break;
    case 1:
      keep(b_.mul(left, right), size(a) * size(b) * 1.5);
      break;
    default:
      keep(b_.add(left, right), of_sum);
  }
}

void GraphMaker::add_unary() {
  const ValueId x = any_real();
  const double s = size(x);
  switch (choose_.below(10)) {
    case 0:
    case 1:
    case 2:
    case 3:
      keep(b_.emit(choose_.from(kUnary), {x})[0], std::max(s, 1.0));
      break;
    case 4:
      if (choose_.one_in(2))
        keep(b_.clamp(x, -1.5, choose_.of({0.5, 2.0})), std::min(s, 2.0));
      else
        keep(b_.add_scalar(x, choose_.of({1.0, -1.0, 0.25})), s + 1);
      break;
    case 5: {
      const double factor = choose_.of({0.5, -1.0, 2.0, 0.1});
      keep(b_.mul_scalar(x, factor), s * std::fabs(factor));
      break;
    }
    case 6:
      keep(b_.softmax(laid(x, Layout::kRowMajor)), 1 / std::sqrt(static_cast<double>(graph_.type(x).shape[-1])));
      break;
    case 7:
      add_norm(x);
      break;
    case 8:
      keep(b_.emit(Op::kCumsum, {laid(x, Layout::kRowMajor)})[0],
           s * std::sqrt(static_cast<double>(graph_.type(x).shape[-1])));
      break;
    default:
      keep(b_.layer_norm(laid(x, Layout::kRowMajor), choose_.of({1e-6, 1e-5})), 1);
  }
}

/// A norm with weight and bias, one of them, or none.
void GraphMaker::add_norm(ValueId x) {
  const TensorType type = graph_.type(x);
  if (type.shape.rank() > 1 && choose_.one_in(3)) return add_group_norm(x);
  std::vector<ValueId> operands = {laid(x, Layout::kRowMajor)};
  if (!choose_.one_in(3)) operands.push_back(vector_weight(type.shape[-1], type.dtype, "gain"));
  const bool of_squares = choose_.one_in(2);
  if (operands.size() > 1 && !of_squares && choose_.one_in(2))
    operands.push_back(graph_.add_param(fresh("bias"), graph_.type(operands[1])));
  keep(b_.emit(of_squares ? Op::kRmsNorm : Op::kLayerNorm, operands, {{"eps", choose_.of({1e-6, 1e-5})}})[0], 1.5);
}

/// Casts to any dtype, often back again, sometimes with data movement in between.
void GraphMaker::add_cast() {
  const ValueId x = any();
  const DType from = graph_.type(x).dtype;
  const DType to =
      choose_.of({DType::kBF16, DType::kBF16, DType::kF16, DType::kF32, DType::kF32, DType::kF64, DType::kF8E4M3,
                  DType::kF8E5M2, DType::kI8, DType::kU8, DType::kI32, DType::kI64, DType::kBool});
  ValueId y = b_.cast(x, to);
  if (choose_.one_in(8)) y = b_.emit(Op::kCast, {y}, {{"dtype", to}})[0];
  if (is_float(to) && choose_.one_in(3))
    y = b_.cast(y, choose_.of({DType::kBF16, DType::kBF16, DType::kF16, DType::kF8E5M2, DType::kF64}));
  if (choose_.one_in(3) && graph_.type(y).shape.rank() > 0) y = b_.slice(y, 0, 0, graph_.type(y).shape[0]);
  sizes_[y] = size(x);
  visible_.push_back(y);
  if (!choose_.one_in(3) || !is_computed_in(graph_.type(y).dtype))
    keep(b_.cast(y, is_computed_in(from) ? from : dtype_), size(x));
}

void GraphMaker::add_view() {
  const ValueId x = any();
  const Shape shape = graph_.type(x).shape;
  const double s = size(x);
  if (shape.rank() == 0) return add_cast();
  const int axis = static_cast<int>(choose_.below(static_cast<std::size_t>(shape.rank())));
  switch (choose_.below(3)) {
    case 0: {
      const auto extent = static_cast<std::size_t>(shape[axis]);
      const std::size_t start = choose_.below(extent);
      keep(b_.slice(x, axis, static_cast<std::int64_t>(start),
                    1 + static_cast<std::int64_t>(choose_.below(extent - start))),
           s);
      break;
    }
    case 1: {
      std::vector<std::int64_t> perm(static_cast<std::size_t>(shape.rank()));
      std::iota(perm.begin(), perm.end(), 0);
      for (std::size_t i = perm.size(); i > 1; --i) std::swap(perm[i - 1], perm[choose_.below(i)]);
      const ValueId y = b_.transpose(x, perm);
      if (shape.rank() == 4 && choose_.one_in(3)) graph_.set_layout(y, Layout::kChannelsLast);
      keep(y, s);
      break;
    }
    default: {
      // Splits an axis in two, or joins it with the next.
      std::vector<std::int64_t> extents = extents_of(shape);
      const auto at = extents.begin() + axis;
      if (choose_.one_in(3)) {
        extents = {shape.numel()};
      } else if (choose_.one_in(2) && axis + 1 < shape.rank()) {
        *at *= *(at + 1);
        extents.erase(at + 1);
      } else if (shape.rank() < 6) {
        const std::int64_t factor = *at % 2 == 0 ? 2 : *at % 3 == 0 ? 3 : 1;
        *at /= factor;
        extents.insert(extents.begin() + axis, factor);
      }
      keep(b_.reshape(x, extents), s);
    }
  }
}

/// Splits heads and joins them, or makes another round trip of shapes.
void GraphMaker::add_shape_round_trip() {
  const ValueId x = tokens();
  const ValueId heads = split_heads(x);  // [b, h, s, d]
  const ValueId y = choose_.one_in(2) ? b_.silu(heads) : heads;
  const ValueId joined = b_.transpose(y, {0, 2, 1, 3});
  keep(b_.reshape(joined, extents_of(tokens_.shape)), size(x));
}

void GraphMaker::add_concat() {
  if (choose_.one_in(3)) {  // parts of one value, in another order
    const ValueId x = tokens();
    const int axis = static_cast<int>(choose_.below(3));
    const std::int64_t extent = tokens_.shape[axis];
    if (extent < 2) return add_view();
    const std::int64_t cut = 1 + static_cast<std::int64_t>(choose_.below(static_cast<std::size_t>(extent - 1)));
    const ValueId first = b_.slice(x, axis, 0, cut), second = b_.slice(x, axis, cut, extent - cut);
    keep(choose_.one_in(3) ? b_.concat({first, second}, axis) : b_.concat({second, first}, axis), size(x));
    return;
  }
  const ValueId x = any();
  const TensorType type = graph_.type(x);
  if (type.shape.rank() == 0 || type.shape.numel() > 8192) return add_view();
  std::vector<ValueId> parts = {x};
  double largest = size(x);
  for (std::size_t i = 1 + choose_.below(2); i > 0; --i) {
    parts.push_back(choose_.one_in(4) ? x : operand(type));  // sometimes one part twice
    largest = std::max(largest, size(parts.back()));
  }
  keep(b_.concat(parts, static_cast<int>(choose_.below(static_cast<std::size_t>(type.shape.rank())))), largest);
}

/// A row of a table, by the counter of a loop or by a given index.
void GraphMaker::add_row() {
  const Shape shape = choose_.one_in(2) ? tokens_.shape : Shape{dims_.batch, 1, dims_.width()};
  if (counters_.empty() || choose_.one_in(6)) {
    const ValueId known = graph_.find(ValueKind::kInput, "index");
    const ValueId index = known != kNoValue ? known : graph_.add_input("index", {DType::kI32, Shape{}});
    const ValueId table = tokens();
    keep(b_.row(table, index), size(table));
    return;
  }
  const auto [counter, trips] = choose_.from(counters_);
  std::vector<std::int64_t> extents = {trips + static_cast<std::int64_t>(choose_.below(2))};
  extents.insert(extents.end(), shape.dims().begin(), shape.dims().end());
  keep(b_.row(operand(typed(Shape(extents))), counter), 1);
}

/// The same op on the same operands once more, in any region.
void GraphMaker::add_duplicate() {
  const std::span<const Node> nodes = graph_.nodes();
  if (nodes.empty()) return add_unary();
  const Node node = choose_.from(nodes);
  const auto is_in_reach = [&](ValueId input) {
    const ValueKind kind = graph_.value(input).kind;
    if (kind == ValueKind::kState) return b_.read(input) == input;
    return kind == ValueKind::kInput || kind == ValueKind::kParam ||
           std::ranges::find(visible_, input) != visible_.end();
  };
  if (!std::ranges::all_of(node.inputs, is_in_reach)) return add_unary();
  graph_.append(node.op, node.inputs, node.attributes, b_.path(), b_.region());
  const std::vector<ValueId> again = graph_.nodes().back().results;
  for (std::size_t i = 0; i < again.size(); ++i) {
    graph_.set_layout(again[i], graph_.type(node.results[i]).layout);
    sizes_[again[i]] = size(node.results[i]);
    visible_.push_back(again[i]);
  }
}

/// A reduction over some axes, or the indices of the largest elements.
void GraphMaker::add_reduction() {
  const ValueId x = laid(any_real(), Layout::kRowMajor);
  const Shape shape = graph_.type(x).shape;
  const int axis = static_cast<int>(choose_.below(static_cast<std::size_t>(shape.rank())));
  if (choose_.one_in(6)) {
    visible_.push_back(b_.argmax(x, axis));
    return;
  }
  if (choose_.one_in(5)) {
    const auto [values, places] = b_.topk(x, choose_.of({std::int64_t{1}, (shape[-1] + 1) / 2, shape[-1]}));
    visible_.push_back(places);
    keep(values, 2 * size(x));
    return;
  }
  std::vector<std::int64_t> axes;
  std::int64_t count = 1;
  for (int k = 0; k < shape.rank(); ++k) {
    if (k != axis && !choose_.one_in(3)) continue;
    axes.push_back(k);
    count *= shape[k];
  }
  const Op op = choose_.of({Op::kSum, Op::kMean, Op::kMean, Op::kAmax, Op::kAmin});
  const double grows = op == Op::kSum ? std::sqrt(static_cast<double>(count)) : op == Op::kMean ? 1 : 2;
  keep(b_.emit(op, {x}, {{"axes", std::move(axes)}})[0], size(x) * grows);
}

/// Functions with a restricted domain or fast growth, of operands within that domain.
void GraphMaker::add_function() {
  const ValueId x = any_real();
  const TensorType type = graph_.type(x);
  const auto positive = [&](ValueId value) { return b_.add_scalar(b_.abs(value), 0.5); };
  const auto second_operand = [&] { return operand({type.dtype, type.shape}); };
  switch (choose_.below(8)) {
    case 0:
      keep(b_.exp(b_.clamp(x, -3, 2)), 3);
      break;
    case 1:
      keep(b_.log(positive(x)), 1);
      break;
    case 2:
      keep(b_.sqrt(positive(x)), 1 + std::sqrt(size(x)));
      break;
    case 3:
      keep(b_.rsqrt(positive(x)), 1.4);
      break;
    case 4:
      keep(b_.div(x, positive(second_operand())), 2 * size(x));
      break;
    case 5:
      keep(b_.pow(b_.clamp(positive(x), 0.5, 4), b_.clamp(second_operand(), -2, 2)), 4);
      break;
    case 6:
      keep(b_.mod(x, positive(second_operand())), 1 + size(x));
      break;
    default: {
      const ValueId other = second_operand();
      keep(choose_.one_in(2) ? b_.min(x, other) : b_.max(x, other), size(x) + size(other));
    }
  }
}

/// Integer arithmetic, or a comparison of integers.
void GraphMaker::add_integers() {
  const ValueId x = any_real();
  const TensorType type = graph_.type(x);
  const DType integer = choose_.of({DType::kI32, DType::kI64});
  const auto whole = [&](ValueId real, double scale) { return b_.cast(b_.mul_scalar(real, scale), integer); };
  const ValueId other = whole(operand({type.dtype, type.shape}), 4);
  ValueId y = whole(x, 8);
  for (int i = choose_.of({1, 2, 3}); i > 0; --i) {
    const std::size_t form = choose_.below(8);
    if (form == 0)
      y = b_.clamp(y, -20, 30);
    else if (form == 1)
      y = choose_.one_in(2) ? b_.add_scalar(y, 3) : b_.mul_scalar(y, -2);
    else
      y = b_.emit(choose_.of({Op::kAdd, Op::kSub, Op::kMul, Op::kMin, Op::kMax, Op::kMod}), {y, other})[0];
  }
  if (choose_.one_in(4)) y = b_.emit(choose_.of({Op::kEqual, Op::kLess, Op::kLessEqual}), {y, other})[0];
  visible_.push_back(y);
  keep(b_.mul_scalar(b_.cast(y, type.dtype), 0x1p-6), 8 * size(x));
}

/// Comparisons, and selections by their results.
void GraphMaker::add_choice() {
  const ValueId x = any_real();
  const TensorType type = graph_.type(x);
  const TensorType row_major{type.dtype, type.shape};
  const ValueId hit = b_.emit(choose_.of({Op::kLess, Op::kLessEqual, Op::kEqual}), {x, operand(row_major)})[0];
  visible_.push_back(hit);
  const ValueId a = operand(row_major), other = choose_.one_in(3) ? operand({type.dtype, Shape{}}) : x;
  const bool swaps = choose_.one_in(2);
  keep(b_.where(hit, swaps ? other : a, swaps ? a : other), std::max(size(a), size(other)));
}

void GraphMaker::add_matmul() {
  const bool transposed = choose_.one_in(2);
  const ValueId a = split_heads(tokens());  // [b, h, s, d]
  const std::int64_t columns = transposed ? dims_.text : dims_.seq;
  const Shape b_shape = transposed ? Shape{dims_.batch, dims_.heads, columns, dims_.head_dim}
                                   : Shape{dims_.batch, dims_.heads, dims_.head_dim, columns};
  const ValueId scores = b_.matmul(a, operand(typed(b_shape)), transposed);
  keep(scores, size(a) * std::sqrt(static_cast<double>(dims_.head_dim)));
}

void GraphMaker::add_rope() {
  const auto [cos, sin] = rope_tables(dims_.seq);
  const ValueId x =
      choose_.one_in(2) ? split_heads(tokens()) : operand(typed({dims_.batch, dims_.seq, dims_.head_dim}));
  keep(b_.rope(x, cos, sin), size(x));
}

/// Plain fused ops, as another pass or a model may have left them.
void GraphMaker::add_fused() {
  const ValueId x = tokens();
  const auto per_image = [&] {
    const DType dtype = choose_.one_in(3) ? DType::kF32 : dtype_;
    return operand({dtype, Shape{dims_.batch, 1, dims_.width()}});
  };
  switch (choose_.below(4)) {
    case 0: {
      const ValueId scale = per_image();
      const ValueId shift = operand(graph_.type(scale));
      keep(b_.emit(Op::kNormModulate, {x, scale, shift}, {{"eps", 1e-6}})[0], 1 + size(scale) + size(shift));
      break;
    }
    case 1: {
      const ValueId gate = per_image(), residual = tokens();
      keep(b_.emit(Op::kGateResidual, {residual, gate, x})[0], size(residual) + size(gate) * size(x));
      break;
    }
    case 2: {
      const auto [cos, sin] = rope_tables(dims_.seq);
      const ValueId y =
          b_.emit(Op::kQkNormRope, {x, vector_weight(dims_.head_dim, graph_.type(x).dtype, "gain"), cos, sin},
                  {{"heads", dims_.heads}, {"eps", 1e-6}})[0];
      keep(y, 1);
      break;
    }
    default: {
      const ValueId q = split_heads(x), k = split_heads(tokens()), v = split_heads(tokens());
      keep(b_.attention(q, k, v, {.scale = 0.25}), size(v));
    }
  }
}

}  // namespace headroom::differential
