// Bodies of fused ops, with all ops that such bodies may contain.

#include <algorithm>
#include <array>
#include <cmath>
#include <variant>

#include "differential/graph_maker.hpp"
#include "differential/unary_ops.hpp"
#include "ir/text/text.hpp"
#include "lower/row_program.hpp"

namespace headroom::differential {
namespace {

/// A body under construction, over rows [batch, seq, width], and the outer values of its inputs.
struct Body {
  struct Wide {
    ValueId value;
    double size;  ///< approximate magnitude of its elements
  };

  Graph graph{"body"};
  Builder builder{graph};
  std::vector<ValueId> operands;
  std::vector<Wide> wide;

  void add(ValueId value, double size) {
    constexpr double kMost = 8;
    if (size > kMost) value = builder.mul_scalar(value, 1 / size);
    wide.push_back({value, size > kMost ? 1 : size});
  }
  void output(ValueId value) { graph.add_output(fmt::format("y{}", graph.outputs().size()), value); }
};

}  // namespace

/// A few values, each computed from earlier ones and from operands that broadcast. Some are results, rounded or
/// quantized.
void GraphMaker::add_body() {
  const Shape shape = tokens_.shape;
  Body body;
  Builder& b = body.builder;
  const auto input = [&](const Shape& of) -> Body::Wide {
    const ValueId outside = operand({choose_.of({DType::kF32, DType::kBF16, dtype_}), of});
    body.operands.push_back(outside);
    const ValueId inside = body.graph.add_input(fmt::format("x{}", body.operands.size()), graph_.type(outside));
    return {b.cast(inside, DType::kF32), size(outside)};
  };
  const auto second_operand = [&] {
    const std::array<Shape, 5> shapes = {shape, Shape{shape[0], 1, shape[2]}, Shape{shape[2]},
                                         Shape{shape[0], shape[1], 1}, Shape{}};
    return input(choose_.from(shapes));
  };
  const auto any_wide = [&] { return choose_.from(body.wide); };
  body.wide.push_back(input(shape));
  for (std::size_t left = 2 + choose_.below(8); left > 0; --left) {
    const auto [x, s] = any_wide();
    switch (choose_.below(10)) {
      case 0:
      case 1: {
        const auto [y, t] = choose_.one_in(3) ? any_wide() : second_operand();
        body.add(b.emit(choose_.of({Op::kAdd, Op::kSub, Op::kMin, Op::kMax}), {x, y})[0], s + t);
        break;
      }
      case 2: {
        const auto [y, t] = choose_.one_in(3) ? any_wide() : second_operand();
        body.add(b.mul(x, y), s * t * 1.5);
        break;
      }
      case 3:
        body.add(b.emit(choose_.from(kUnary), {x})[0], std::max(s, 1.0));
        break;
      case 4:
        body.add(choose_.one_in(2) ? b.clamp(x, -1.5, 0.5) : b.add_scalar(b.mul_scalar(x, 0.5), 1), s + 1);
        break;
      case 5:
        body.add(b.emit(choose_.of({Op::kLayerNorm, Op::kRmsNorm}), {x}, {{"eps", 1e-5}})[0], 1);
        break;
      case 6:
        body.add(b.softmax(x), 1 / std::sqrt(static_cast<double>(shape[2])));
        break;
      case 7: {
        const Op op = choose_.of({Op::kAmax, Op::kAmin, Op::kMean});
        const ValueId row = b.emit(op, {x}, {{"axes", std::vector<std::int64_t>{2}}})[0];
        body.add(b.sub(x, b.reshape(row, {shape[0], shape[1], 1})), 2 * s);
        break;
      }
      case 8: {
        const auto [y, t] = any_wide();
        body.add(b.emit(Op::kSelect, {b.less(x, y), y, b.mul_scalar(x, 0.5)})[0], std::max(s, t));
        break;
      }
      default:
        body.add(b.cast(b.cast(x, choose_.of({DType::kBF16, DType::kF16})), DType::kF32), s);
    }
  }
  std::vector<double> sizes;
  for (std::size_t left = 1 + choose_.below(3); left > 0; --left) {
    const auto [x, s] = left == 1 ? body.wide.back() : any_wide();
    if (choose_.one_in(5)) {
      const auto [q, scale] = b.quantize(x, choose_.of({DType::kI8, DType::kF8E4M3}));
      body.output(q);
      body.output(scale);
      sizes.insert(sizes.end(), {100, s});
    } else {
      body.output(b.cast(x, choose_.of({DType::kF32, DType::kBF16, DType::kBF16, DType::kF16})));
      sizes.push_back(s);
    }
  }
  if (std::holds_alternative<std::string>(row_program_of(body.graph))) return add_unary();
  const std::vector<ValueId> results = b_.emit(Op::kFused, body.operands, {{"body", canonical_text(body.graph)}});
  for (std::size_t i = 0; i < results.size(); ++i) keep(b_.cast(results[i], dtype_), sizes[i]);
}

}  // namespace headroom::differential
