#pragma once

#include <cmath>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "ir/text/text.hpp"
#include "testing/convolution_cases.hpp"
#include "testing/fused_cases.hpp"

/// Small specs of every op with floating-point operands, for tests that plant NaN, infinities and zeros in them.
namespace headroom {

struct SpecialCase {
  OpSpec spec;
  /// Operands in which nothing is planted, in addition to integers: the op leaves the propagation open.
  std::function<bool(std::size_t input, Special)> skips = {};
};

/// Main operands are of `stored`, vectors of `side`, which is `stored` or f32.
class SpecialCases {
 public:
  SpecialCases(DType stored, DType side) : stored_(stored), side_(side) {}

  std::vector<SpecialCase> list(bool with_f8) {
    add_elementwise();
    add_matmuls();
    add_scaled_matmuls();
    add_norms();
    add_reductions();
    add_positions();
    add_movements();
    add_images();
    add_attention();
    for (const DType narrow : {DType::kI8, DType::kF8E4M3})
      for (const Shape& shape : {Shape{3, 17}, Shape{5, 64}, Shape{2, 3, 256}})
        add(Op::kQuantize, {{stored_, shape}}, {{attr::kDType, narrow}});
    for (FusedCase& body : FusedCases(stored_, side_, 5, 48).list(with_f8))
      if (body.name != "clamped to a byte") cases_.push_back({std::move(body.spec)});  // a NaN is no integer
    return std::move(cases_);
  }

 private:
  using Types = std::vector<TensorType>;

  void add(Op op, Types inputs, NamedAttributes attributes = {}, std::vector<bool> is_weight = {}) {
    cases_.push_back({make_spec(op, std::move(inputs), std::move(attributes), std::move(is_weight))});
  }
  [[nodiscard]] TensorType stored(const Shape& shape) const { return {stored_, shape}; }
  [[nodiscard]] TensorType of_side(const Shape& shape) const { return {side_, shape}; }

  static std::vector<Activation> activations() {
    return {Activation::kNone, Activation::kRelu, Activation::kSilu, Activation::kGeluTanh, Activation::kGeluErf};
  }

  void add_elementwise() {
    const TensorType x = stored({3, 5, 33});
#define HR_ANY(...)
#define HR_UNARY(enumerator, ...) add(Op::enumerator, {x});
#define HR_SCALAR(enumerator, ...) add(Op::enumerator, {x}, {{attr::kValue, 1.5}});
#define HR_RANGE(enumerator, ...) add(Op::enumerator, {x}, {{attr::kLow, -0.5}, {attr::kHigh, 0.75}});
#define HR_BINARY(enumerator, ...) \
  add(Op::enumerator, {x, x});     \
  add(Op::enumerator, {x, stored({5, 1})});
#define HR_REAL_BINARY HR_BINARY
#define HR_COMPARISON HR_BINARY
#define HR_TERNARY(enumerator, ...) add(Op::enumerator, {x, of_side({3, 1, 33}), x});
#include "ir/elementwise.def"
    add(Op::kSelect, {{DType::kBool, x.shape}, x, stored({33})});
    for (const DType to : {DType::kF32, DType::kBF16, DType::kF16}) add(Op::kCast, {x}, {{attr::kDType, to}});
  }

  void add_matmuls() {
    struct Sizes {
      std::int64_t rows, k, n;
    };
    for (const Sizes& size : {Sizes{1, 32, 48}, {5, 31, 7}, {33, 64, 32}, {96, 64, 64}})
      for (const Activation activation : activations())
        for (const bool has_bias : {false, true}) {
          Types inputs = {stored({size.rows, size.k}), stored({size.n, size.k})};
          if (has_bias) inputs.push_back(of_side({size.n}));
          add(Op::kLinear, inputs, {{attr::kEpilogue, Epilogue(activation)}}, {false, true, true});
          if (activation != Activation::kNone) continue;
          inputs.push_back(stored({size.rows, size.n}));
          add(Op::kLinear, std::move(inputs), {{attr::kEpilogue, Epilogue().then(Op::kAdd)}}, {false, true, has_bias});
        }
    add(Op::kLinear, {stored({2, 5, 24}), stored({16, 24})}, {{attr::kTf32, true}});
    for (const bool transposed : {false, true})
      add(Op::kMatmul, {stored({2, 3, 9, 24}), stored(transposed ? Shape{2, 3, 16, 24} : Shape{2, 3, 24, 16})},
          {{attr::kTransposeB, transposed}});
  }

  void add_scaled_matmuls() {
    for (const DType narrow : {DType::kI8, DType::kF8E4M3})
      for (const std::int64_t rows : {3, 48})
        for (const Activation activation : activations())
          for (const bool has_bias : {false, true}) {
            const Shape x{rows, 64}, weight{32, 64};
            Types inputs = {{narrow, x}, {DType::kF32, {rows}}, {narrow, weight}, {DType::kF32, {32}}};
            if (has_bias) inputs.push_back(of_side({32}));
            add(Op::kScaledLinear, inputs, {{attr::kEpilogue, Epilogue(activation)}, {attr::kDType, stored_}},
                {false, false, true, true, true});
            if (activation != Activation::kNone) continue;
            inputs.push_back(stored({rows, 32}));
            add(Op::kScaledLinear, std::move(inputs),
                {{attr::kEpilogue, Epilogue().then(Op::kAdd)}, {attr::kDType, stored_}},
                {false, false, true, true, has_bias});
          }
  }

  void add_norms() {
    for (const std::int64_t columns : {17, 64}) {
      const TensorType x = stored({2, 5, columns}), vector = of_side({columns}), token = stored({2, 1, columns});
      add(Op::kSoftmax, {x});
      add(Op::kCumsum, {x});
      add(Op::kRmsNorm, {x}, {{attr::kEps, 1e-6}});
      add(Op::kRmsNorm, {x, vector}, {{attr::kEps, 1e-6}});
      add(Op::kLayerNorm, {x}, {{attr::kEps, 1e-5}});
      add(Op::kLayerNorm, {x, vector, vector}, {{attr::kEps, 1e-5}});
      add(Op::kNormModulate, {x, token, token}, {{attr::kEps, 1e-6}});
    }
    for (const Layout layout : {Layout::kRowMajor, Layout::kChannelsLast})
      for (const Shape& shape : {Shape{2, 8, 5, 3}, Shape{1, 32, 16, 16}, Shape{2, 64, 32, 32}})
        for (const Activation activation : activations())
          for (const bool is_affine : {false, true}) {
            Types inputs = {{stored_, shape, layout}};
            if (is_affine) inputs.insert(inputs.end(), 2, of_side({shape[1]}));
            add(Op::kGroupNorm, std::move(inputs),
                {{attr::kGroups, 4}, {attr::kEps, 1e-5}, {attr::kEpilogue, Epilogue(activation)}});
            cases_.back().skips = infinite_factors;
          }
    add_norm_body();
  }

  /// Kernels multiply x and the mean by an infinite factor before they subtract.
  static bool infinite_factors(std::size_t input, Special special) {
    return input > 0 && special == Special::kInfinities;
  }
  /// Whether a non-finite weight is multiplied by the zero padding of an image is open: kernels may skip the
  /// padding.
  static bool infinite_weights(std::size_t input, Special special) { return input == 1 && special != Special::kZeros; }

  /// silu(group_norm(x) * (scale + 1) + offset) as one body.
  void add_norm_body() {
    Graph body("body");
    Builder b(body);
    const TensorType pixels{stored_, {2, 64, 8, 8}, Layout::kChannelsLast}, vector = of_side({2, 64, 1, 1});
    const auto input = [&](const char* name, const TensorType& type) {
      return b.cast(body.add_input(name, type), DType::kF32);
    };
    const ValueId normed = b.group_norm(input("x", pixels), 4, 1e-5);
    const ValueId scaled = b.mul(normed, b.add_scalar(input("scale", vector), 1));
    body.add_output("y", b.cast(b.silu(b.add(scaled, input("offset", vector))), stored_));
    add(Op::kFused, {pixels, vector, vector}, {{attr::kBody, canonical_text(body)}});
    cases_.back().skips = infinite_factors;
  }

  void add_reductions() {
    for (const Op op : {Op::kSum, Op::kMean, Op::kAmax, Op::kAmin})
      for (const std::vector<std::int64_t>& axes :
           std::vector<std::vector<std::int64_t>>{{2}, {0}, {1}, {0, 2}, {0, 1, 2}})
        add(op, {stored({3, 9, 37})}, {{attr::kAxes, axes}});
    for (const std::int64_t axis : {0, 1, 2}) add(Op::kArgmax, {stored({3, 9, 37})}, {{attr::kAxis, axis}});
    add(Op::kTopk, {stored({5, 37})}, {{attr::kK, 4}});
  }

  void add_positions() {
    const TensorType table{DType::kF32, {5, 16}};
    add(Op::kRope, {stored({2, 3, 5, 32}), table, table});
    add(Op::kQkNormRope, {stored({2, 5, 3 * 32}), of_side({32}), table, table},
        {{attr::kHeads, 3}, {attr::kEps, 1e-6}});
    add(Op::kRopeTable, {stored({5, 2})}, {{attr::kAxes, std::vector<std::int64_t>{8, 8}}});
    add(Op::kTimestepEmbedding, {stored({3})}, {{attr::kDim, 32}});
  }

  void add_movements() {
    const TensorType x = stored({3, 5, 16});
    add(Op::kReshape, {x}, {{attr::kShape, Ints{15, 16}}});
    add(Op::kTranspose, {x}, {{attr::kPerm, Ints{1, 0, 2}}});
    add(Op::kTranspose, {x}, {{attr::kPerm, Ints{2, 1, 0}}});
    add(Op::kConcat, {x, x}, {{attr::kAxis, 1}});
    add(Op::kSlice, {x}, {{attr::kAxis, 1}, {attr::kStart, 1}, {attr::kExtent, 3}});
    add(Op::kPad, {x}, {{attr::kBefore, Ints{0, 1, 2}}, {attr::kAfter, Ints{1, 0, 3}}});
    add(Op::kBroadcast, {stored({3, 1, 16})}, {{attr::kShape, Ints{3, 5, 16}}});
    add(Op::kRow, {x, {DType::kI32, Shape{}}});
    add(Op::kGather, {x, {DType::kI32, {4}}});
    add(Op::kScatterAdd, {stored({5, 16}), {DType::kI32, {7}}, stored({7, 16})});
  }

  void add_images() {
    for (const Layout layout : {Layout::kRowMajor, Layout::kChannelsLast}) {
      for (const std::int64_t window : {2, 3}) {
        add(Op::kMaxPool2d, {{stored_, {2, 9, 12, 7}, layout}}, {{attr::kWindow, window}});
        add(Op::kMaxPool2d, {{stored_, {1, 32, 8, 8}, layout}}, {{attr::kWindow, window}});
        add(Op::kAvgPool2d, {{stored_, {2, 9, 12, 7}, layout}}, {{attr::kWindow, window}});
      }
      for (const ResizeMode mode : {ResizeMode::kNearest, ResizeMode::kBilinear})
        add(Op::kResize2d, {{stored_, {2, 9, 5, 7}, layout}}, {{attr::kImageSize, Ints{10, 9}}, {attr::kMode, mode}});
      for (const ConvolutionCase& c : convolution_cases())
        if (c.x.numel() <= 8192) cases_.push_back({c.conv2d(stored_, layout, {.bias = side_}), infinite_weights});
      for (const ConvolutionCase& c :
           std::vector<ConvolutionCase>{{{2, 5, 7, 6}, {7, 5, 3, 3}, Builder::evenly(1, 1)},
                                        {{1, 64, 6, 6}, {128, 64, 1, 1}},
                                        {{1, 64, 8, 8}, {64, 64, 3, 3}, Builder::evenly(1, 1)}})
        for (const ConvolutionEnd& end : convolution_ends(side_)) {
          ConvolutionEnd taken = end;
          if (end.has_residual) taken.activation = Activation::kRelu;
          cases_.push_back({c.conv2d(stored_, layout, taken), infinite_weights});
        }
      for (const ConvolutionCase& c : transposed_cases())
        cases_.push_back({c.conv_transpose2d(stored_, layout, side_), infinite_weights});
      const ConvolutionCase shortcut{{1, 64, 8, 8}, {64, 64, 3, 3}, Builder::evenly(1, 1)};
      for (const Activation activation : {Activation::kNone, Activation::kRelu, Activation::kSilu})
        cases_.push_back({shortcut.conv2d_shortcut(stored_, layout, 32, activation), infinite_weights});
    }
  }

  /// The effect of a masked key is open: kernels may skip it, and the op's definition multiplies it by a weight of
  /// 0.
  void add_attention() {
    for (const std::int64_t dim : {16, 64, 72})
      for (const bool has_logsumexp : {false, true}) {
        const TensorType q = stored({1, 2, 9, dim}), k = stored({1, 2, 40, dim});
        const NamedAttributes attributes = {{attr::kScale, 0.3}, {attr::kLogsumexp, has_logsumexp}};
        const auto of_keys = [](std::size_t input, Special special) {
          return (input == 1 || input == 2) && special != Special::kZeros;
        };
        add(Op::kAttention, {q, k, k}, attributes);
        add(Op::kAttention, {q, k, k, stored({1, 2, 9, 40})}, attributes);
        add(Op::kAttention, {q, k, k, {DType::kBool, {1, 1, 9, 40}}}, attributes);
        cases_.back().skips = of_keys;
        NamedAttributes causal = attributes;
        causal.emplace_back(attr::kCausal, true);
        add(Op::kAttention, {k, k, k}, causal);
        cases_.back().skips = of_keys;
        for (const std::int64_t diagonal : {20, -20}) {
          NamedAttributes moved = causal;
          moved.emplace_back(attr::kDiagonal, diagonal);
          add(Op::kAttention, {k, k, k}, std::move(moved));
          cases_.back().skips = [=](std::size_t input, Special special) {
            // A query that sees nothing but scores of -infinity, where others see none, may get 0 or NaN.
            return of_keys(input, special) || (diagonal < 0 && special == Special::kInfinities);
          };
        }
      }
    for (const std::int64_t axis : {0, 1, 2})
      for (const bool has_logsumexp : {false, true})
        add(Op::kMergeAttention, {stored({3, 2, 7, 40}), {DType::kF32, {3, 2, 7}}},
            {{attr::kAxis, axis}, {attr::kLogsumexp, has_logsumexp}});
    add(Op::kAttention, {stored({1, 2, 64, 64}), stored({1, 2, 128, 64}), stored({1, 2, 128, 64})},
        {{attr::kScale, 0.125}});
    for (const std::int64_t tokens : {40, 256}) add(Op::kQuantizeValues, {stored({1, 2, tokens, 64})});
    const auto scales = [](std::int64_t rows) { return TensorType{DType::kF32, {1, 2, rows}}; };
    for (const DType scores : {DType::kI8, DType::kF8E4M3}) {
      const TensorType q{scores, {1, 2, 70, 64}}, k{scores, {1, 2, 128, 64}}, v{DType::kF8E4M3, {1, 2, 64, 128}};
      add(Op::kScaledAttention, {q, scales(70), k, scales(128), v, scales(64)},
          {{attr::kScale, 0.3}, {attr::kDType, stored_}});
      cases_.back().skips = [](std::size_t input, Special special) {  // scales are above 0 and finite, or NaN
        return input % 2 == 1 && special != Special::kNaN;
      };
    }
  }

  DType stored_, side_;
  std::vector<SpecialCase> cases_;
};

/// These tests check where special values appear; the kernels' own tests check accuracy.
inline constexpr Tolerance kSpecialTolerance{.relative_l2 = 0.1, .max_ulps_of_peak = 0x1p20};

/// "linear bf16[5, 31] bf16[7, 31] {...}"
[[nodiscard]] inline std::string text_of(const OpSpec& spec) {
  std::string text(name_of(spec.op));
  for (const TensorType& input : spec.inputs) text += fmt::format(" {}", input);
  for (const auto& [name, value] : spec.attributes.all())
    if (name == attr::kEpilogue.name || name == attr::kMode.name) text += " " + to_text(value);
  return text;
}

}  // namespace headroom
