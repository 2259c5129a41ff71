#pragma once

#include <algorithm>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "ir/builder.hpp"
#include "ir/infer.hpp"
#include "ir/test_cases/tolerance.hpp"
#include "ir/text/text.hpp"

/// Bodies of fused ops: for the table of cases, and for the tests of single kernels.
namespace headroom {

struct FusedCase {
  std::string name;
  OpSpec spec;
  bool is_quantized = false;  ///< intermediate rounding: near a tie f32 and the oracle's double may differ by one unit
  /// The magnitude of values whose mean is subtracted: if it is far from 0, f32 loses that much of the difference.
  double magnitude = 1;
};

/// Tolerance for quantized values: where f32 and the oracle's double round differently, results are one unit apart,
/// in few elements. `exact` holds for all other bodies, which have sums after functions.
[[nodiscard]] inline Tolerance tolerance_of(const FusedCase& body, Tolerance exact) {
  const bool makes_f32 = body.spec.outputs[0].dtype == DType::kF32;
  if (body.is_quantized) {  // scales are f32, of functions that are as exact as the quantized values need
    const bool has_scales =
        std::ranges::any_of(body.spec.outputs, [](const TensorType& made) { return made.dtype == DType::kF32; });
    return {.relative_l2 = 8e-3, .max_ulps_of_peak = has_scales ? 0x1p16 : 16};
  }
  const double lost = makes_f32 ? body.magnitude : 1;  // narrower results hide it
  exact.relative_l2 *= 2 * lost;
  exact.max_ulps_of_peak *= lost;
  return exact;
}

/// Typical bodies of networks on [2, rows, columns] of `stored`, with vectors of `side`.
class FusedCases {
 public:
  FusedCases(DType stored, DType side, std::int64_t rows, std::int64_t columns)
      : stored_(stored), side_(side), shape_({2, rows, columns}) {}

  /// The case with that name.
  FusedCase named(std::string_view name) {
    for (FusedCase& one : list(true))
      if (one.name == name) return std::move(one);
    fail("no body is called {}", name);
  }

  std::vector<FusedCase> list(bool with_f8) {
    const std::int64_t columns = shape_[2];
    const Shape vector{2, 1, columns}, per_row{2, shape_[1], 1}, whole{columns};
    add("bias, gelu", [&](Body& b) { b.store(b->gelu_tanh(b->add(b.load(shape_), b.side_input(whole)))); });
    add("silu times", [&](Body& b) { b.store(b->mul(b->silu(b.load(shape_)), b.load(shape_))); });
    add("gated sum, norm, modulation", [&](Body& b) {
      const ValueId sum = gated_sum(b, vector);
      b.store(sum);
      b.store(modulated(b, sum, vector));
    });
    add("sum, rms norm", [&](Body& b) {
      const ValueId sum = b->add(b.load(shape_), b.load(shape_));
      b.store(b->rms_norm(sum, b.side_input(whole), 1e-6));
      b.store(sum);
    });
    add("sum first, an operand last", [&](Body& b) {
      const ValueId sum = b->add(b.load(shape_), b.load(shape_));
      b.store(sum);
      b.store(b->mul(b->rms_norm(sum, b.side_input(whole), 1e-6), b.load(shape_)));
    });
    add("sum of three, rms norm", [&](Body& b) {
      const ValueId sum = b->add(b->add(b.load(shape_), b.load(shape_)), b.load(shape_));
      b.store(b->rms_norm(sum, b.side_input(whole), 1e-6));
    });
    add("layer norm with weight and bias", [&](Body& b) {
      b.store(b->layer_norm(b.load(shape_), 1e-5, {.weight = b.side_input(whole), .bias = b.side_input(whole)}));
    });
    add("layer norm far from 0", [&](Body& b) { b.store(b->layer_norm(b->add_scalar(b.load(shape_), 16), 1e-6)); });
    bodies_.back().magnitude = 16;
    add("softmax of masked scores", [&](Body& b) {
      b.store(b->softmax(b->add(b->mul_scalar(b.load(shape_), 0.125), b.side_input({shape_[1], columns}))));
    });
    add("per row and per element",
        [&](Body& b) { b.store(b->mul(b->add(b.load(shape_), b.side_input(per_row)), b.side_input({1}))); });
    add("rounded in between", [&](Body& b) {
      const ValueId x = b->cast(b->cast(b->exp(b.load(shape_)), DType::kF16), DType::kF32);
      b.store(b->rms_norm(b->cast(b->cast(x, DType::kBF16), DType::kF32), b.side_input(whole), 1e-6));
    });
    bodies_.back().is_quantized = true;
    add("select of comparisons", [&](Body& b) {
      const ValueId x = b.load(shape_), y = b.load(shape_);
      b.store(b->emit(Op::kSelect, {b->less(x, y), b->exp(x), b->clamp(y, -0.5, 0.5)})[0]);
    });
    add("cross-entropy of a row", [&](Body& b) {
      const ValueId x = b.load(shape_);
      const ValueId largest = b->reshape(b->amax(x, {2}), {2, shape_[1], 1});
      const ValueId sum = b->sum(b->exp(b->sub(x, largest)), {2});
      b.body.add_output(b.next_output(), b->log(sum));
      b.store(b->sub(x, largest));
    });
    add("extremes of a row", [&](Body& b) {
      const ValueId x = b.load(shape_);
      b.body.add_output(b.next_output(), b->sub(b->amax(x, {2}), b->amin(x, {2})));
      b.store(b->mul_scalar(x, 0.5));
    });
    add("weight update", [&](Body& b) {
      const ValueId w = b.input(DType::kF32, shape_), g = b.load(shape_), m = b.input(DType::kF32, shape_),
                    v = b.input(DType::kF32, shape_);
      const ValueId mean = b->add(b->mul_scalar(m, 0.9), b->mul_scalar(g, 0.1));
      const ValueId square = b->add(b->mul_scalar(b->abs(v), 0.999), b->mul_scalar(b->mul(g, g), 0.001));
      const ValueId step = b->div(mean, b->add_scalar(b->sqrt(square), 1e-8));
      b.body.add_output(b.next_output(), b->sub(w, b->mul_scalar(step, 1e-3)));
      b.body.add_output(b.next_output(), mean);
      b.body.add_output(b.next_output(), square);
    });
    if (columns % 2 == 0)
      add("rms norm, rotation", [&](Body& b) {
        const Shape table{shape_[1], columns / 2};
        const ValueId x = b->rms_norm(b.load(shape_), b.side_input(whole), 1e-6);
        b.store(b->rope(x, b.input(DType::kF32, table), b.input(DType::kF32, table)));
      });
    quantized("sum, norm, modulation, quantized", with_f8 ? DType::kF8E4M3 : DType::kI8, [&](Body& b) {
      const ValueId sum = gated_sum(b, vector);
      b.store(sum);
      return modulated(b, sum, vector);
    });
    quantized("gelu, quantized", with_f8 ? DType::kF8E4M3 : DType::kI8,
              [&](Body& b) { return b->gelu_tanh(b.load(shape_)); });
    quantized("as it is, quantized", with_f8 ? DType::kF8E4M3 : DType::kI8, [&](Body& b) { return b.load(shape_); });
    if (stored_ != DType::kF32)  // short mantissas, so that f32 is exact and both round alike
      add("clamped to a byte", [&](Body& b) {
        const ValueId x = b->add_scalar(b->mul_scalar(b.load(shape_), 32), 128);
        b.body.add_output(b.next_output(), b->cast(b->clamp(x, 0, 255), DType::kU8));
      });
    return std::move(bodies_);
  }

 private:
  struct Body {
    Body(std::string name, DType stored_as, DType side_as)
        : body(std::move(name)), builder(body), stored(stored_as), side(side_as) {}
    Builder* operator->() { return &builder; }
    ValueId input(DType dtype, const Shape& shape) {
      inputs.push_back({dtype, shape});
      return builder.cast(body.add_input("x" + std::to_string(inputs.size()), inputs.back()), DType::kF32);
    }
    ValueId load(const Shape& shape) { return input(stored, shape); }
    ValueId side_input(const Shape& shape) { return input(side, shape); }
    std::string next_output() const { return "y" + std::to_string(body.outputs().size()); }
    void store(ValueId value) { body.add_output(next_output(), builder.cast(value, stored)); }

    Graph body;
    Builder builder;
    DType stored, side;
    std::vector<TensorType> inputs;
  };

  void add(const std::string& name, const std::function<void(Body&)>& build) {
    Body body("body", stored_, side_);
    build(body);
    bodies_.push_back({name, make_spec(Op::kFused, body.inputs, {{attr::kBody, canonical_text(body.body)}})});
  }
  void quantized(const std::string& name, DType dtype, const std::function<ValueId(Body&)>& build) {
    add(name, [&](Body& b) {
      const auto [q, scale] = b->quantize(build(b), dtype);
      b.body.add_output(b.next_output(), q);
      b.body.add_output(b.next_output(), scale);
    });
    bodies_.back().is_quantized = true;
  }
  ValueId gated_sum(Body& b, const Shape& vector) const {
    return b->add(b.load(shape_), b->mul(b.side_input(vector), b.load(shape_)));
  }
  static ValueId modulated(Body& b, ValueId x, const Shape& vector) {
    return b->add(b->mul(b->layer_norm(x, 1e-6), b->add_scalar(b.side_input(vector), 1.0)), b.side_input(vector));
  }

  DType stored_, side_;
  Shape shape_;
  std::vector<FusedCase> bodies_;
};

}  // namespace headroom
