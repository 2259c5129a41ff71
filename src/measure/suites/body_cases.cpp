#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <cmath>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/tensors/shape.hpp"
#include "ir/builder.hpp"
#include "measure/suites/body_suite.hpp"

// bench/peers/bodies_torch.py has the same bodies in PyTorch: names, operands and results in the same order.

namespace headroom {
namespace {

constexpr double kEps = 1e-6;

/// Builds a body: a graph with its inputs and outputs in order.
class Body {
 public:
  Body(const std::string& name, DType stored)
      : one_{.name = {}, .body = name, .graph = Graph(name), .inputs = {}}, stored_(stored) {}
  Body(const Body&) = delete;
  Body& operator=(const Body&) = delete;

  Builder* operator->() { return &builder_; }
  [[nodiscard]] DType stored() const { return stored_; }

  /// An input in the storage dtype.
  ValueId input(const Shape& shape) { return add({stored_, shape}, {}); }
  /// [b, c, h, w], channels-last: the physical input is [b, h, w, c], and so is the result of output_image().
  ValueId image(const Shape& shape) {
    return turned(input({shape[0], shape[2], shape[3], shape[1]}), {0, 3, 1, 2}, Layout::kChannelsLast);
  }
  void output_image(ValueId value) { output(turned(value, {0, 2, 3, 1}, Layout::kRowMajor)); }
  ValueId f32(const Shape& shape, const BodyInput& how = {}) { return add({DType::kF32, shape}, how); }
  /// [rows, 1]: an index in each row of a table [rows, columns], from the start of the table.
  ValueId places(std::int64_t rows, std::int64_t columns) {
    return add({DType::kI32, {rows, 1}}, {.columns = columns});
  }
  void output(ValueId value) { one_.graph.add_output(fmt::format("y{}", one_.graph.outputs().size()), value); }
  /// An output in f8e4m3, with a scale for each row.
  void quantized(ValueId value) {
    const auto [q, scale] = builder_.quantize(value, DType::kF8E4M3);
    output(q);
    output(scale);
  }

  BodyCase take(std::string name) {
    one_.name = std::move(name);
    return std::move(one_);
  }

 private:
  ValueId add(const TensorType& type, const BodyInput& how) {
    one_.inputs.push_back(how);
    return one_.graph.add_input(fmt::format("x{}", one_.inputs.size() - 1), type);
  }

  /// A view.
  ValueId turned(ValueId image, std::vector<std::int64_t> perm, Layout layout) {
    const ValueId view = builder_.transpose(image, std::move(perm));
    one_.graph.set_layout(view, layout);
    return view;
  }

  BodyCase one_;
  DType stored_;
  Builder builder_{one_.graph};
};

/// layer_norm(x[b, s, d]) (1 + scale[b, 1, d]) + shift[b, 1, d]
ValueId modulated_norm(Body& b, ValueId x, const Shape& vector) {
  const ValueId scale = b.input(vector), shift = b.input(vector);
  return b->add(b->mul(b->layer_norm(x, kEps), b->add_scalar(scale, 1)), shift);
}

void bias_gelu_quantize(Body& b, const Shape& size) {  // [rows, d]
  const ValueId x = b.input(size), bias = b.input({size[1]});
  b.quantized(b->gelu_tanh(b->add(x, bias)));
}

void silu_mul(Body& b, const Shape& size) {
  const ValueId x = b.input(size), y = b.input(size);
  b.output(b->mul(b->silu(x), y));
}

void rms_norm_residual(Body& b, const Shape& size) {  // [rows, d]
  const ValueId x = b.input(size), residual = b.input(size), weight = b.input({size[1]});
  const ValueId sum = b->add(residual, x);
  b.output(sum);
  b.output(b->rms_norm(sum, weight, kEps));
}

void norm_modulate_quantize(Body& b, const Shape& size) {  // [b, s, d]
  const ValueId x = b.input(size);
  b.quantized(modulated_norm(b, x, {size[0], 1, size[2]}));
}

void softmax_mask(Body& b, const Shape& size) {  // [b, h, s, t]
  const ValueId scores = b.input(size), mask = b.input({size[2], size[3]});
  b.output(b->softmax(b->add(b->mul_scalar(scores, 0.125), mask)));
}

void group_norm_silu(Body& b, const Shape& size) {
  const ValueId x = b.image(size), weight = b.input({size[1]}), bias = b.input({size[1]});
  b.output_image(b->silu(b->group_norm(x, 32, kEps, {.weight = weight, .bias = bias})));
}

void rms_norm_rope_heads(Body& b, const Shape& size) {  // [b, s, h, d]
  const std::int64_t heads = size[2], head_dim = size[3];
  const ValueId x = b.input({size[0], size[1], heads * head_dim}), weight = b.input({head_dim});
  const ValueId cosine = b.f32({size[1], head_dim / 2}), sine = b.f32({size[1], head_dim / 2});
  const ValueId split = b->transpose(b->reshape(x, {size[0], size[1], heads, head_dim}), {0, 2, 1, 3});  // [b, h, s, d]
  b.output(b->rope(b->rms_norm(split, weight, kEps), cosine, sine));
}

void gate_residual_norm_quantize(Body& b, const Shape& size) {  // [b, s, d]
  const Shape vector{size[0], 1, size[2]};
  const ValueId residual = b.input(size), gate = b.input(vector), x = b.input(size);
  const ValueId sum = b->add(residual, b->mul(gate, x));
  b.output(sum);
  b.quantized(modulated_norm(b, sum, vector));
}

/// Loshchilov and Hutter, "Decoupled weight decay regularization" (2019), algorithm 2, at its tenth step.
void adamw(Body& b, const Shape& size) {
  constexpr double kRate = 1e-4, kDecay = 0.01, kBeta1 = 0.9, kBeta2 = 0.999;
  const double unbiased1 = 1 - std::pow(kBeta1, 10), unbiased2 = 1 - std::pow(kBeta2, 10);
  const ValueId weight = b.input(size), gradient = b.input(size);
  const ValueId first = b.f32(size), second = b.f32(size, {.mean = 1, .deviation = 0.1F});
  const ValueId w = b->cast(weight, DType::kF32), g = b->cast(gradient, DType::kF32);
  const ValueId m = b->add(b->mul_scalar(first, kBeta1), b->mul_scalar(g, 1 - kBeta1));
  const ValueId v = b->add(b->mul_scalar(second, kBeta2), b->mul_scalar(b->mul(g, g), 1 - kBeta2));
  const ValueId root = b->add_scalar(b->mul_scalar(b->sqrt(v), 1 / std::sqrt(unbiased2)), 1e-8);
  const ValueId step = b->mul_scalar(b->div(m, root), kRate / unbiased1);
  b.output(b->cast(b->sub(b->mul_scalar(w, 1 - kRate * kDecay), step), b.stored()));
  b.output(m);
  b.output(v);
}

/// log(sum(exp(row))) minus the logit of the row's label.
void cross_entropy(Body& b, const Shape& size) {  // [rows, classes]
  const std::int64_t rows = size[0], classes = size[1];
  const ValueId logits = b.input(size), places = b.places(rows, classes);
  const ValueId x = b->cast(logits, DType::kF32);
  const ValueId largest = b->reshape(b->amax(x, {1}), {rows, 1});
  const ValueId sum = b->reshape(b->sum(b->exp(b->sub(x, largest)), {1}), {rows, 1});
  const ValueId label = b->cast(b->gather(b->reshape(logits, {rows * classes}), places), DType::kF32);
  b.output(b->sub(b->add(b->log(sum), largest), label));
}

void bias_table_add(Body& b, const Shape& size) {  // [b, h, s, t]
  const ValueId scores = b.input(size), table = b.input({size[1], size[2], size[3]});
  b.output(b->add(scores, table));
}

void upsample_add(Body& b, const Shape& size) {  // of the large image
  const ValueId x = b.image({size[0], size[1], size[2] / 2, size[3] / 2}), skip = b.image(size);
  b.output_image(b->add(b->resize2d(x, {size[2], size[3]}), skip));
}

void pixel_shuffle(Body& b, const Shape& size) {  // [b, c r r, h, w] -> [b, c, h r, w r]
  constexpr std::int64_t r = 2;
  const std::int64_t channels = size[1] / (r * r), height = size[2], width = size[3];
  const ValueId blocks = b->reshape(b.input(size), {size[0], channels, r, r, height, width});
  b.output(b->reshape(b->transpose(blocks, {0, 1, 4, 2, 5, 3}), {size[0], channels, height * r, width * r}));
}

void clamp_to_u8(Body& b, const Shape& size) {
  const ValueId x = b->cast(b.input(size), DType::kF32);
  b.output(b->cast(b->clamp(b->add_scalar(b->mul_scalar(x, 127.5), 127.5), 0, 255), DType::kU8));
}

struct BodyKind {
  std::string_view name;
  void (*write)(Body& body, const Shape& size);
  std::array<Shape, 3> sizes;  ///< small, medium, large
};

/// Sizes: tokens of 384 and of 3072 channels, rows of an MLP's 12288; scores of Swin's windows; images inside an
/// autoencoder, and final images.
const std::vector<BodyKind>& all_kinds() {
  const std::array<Shape, 3> rows = {Shape{5440, 384}, {4608, 3072}, {36864, 3072}};
  const std::array<Shape, 3> wide = {Shape{5440, 384}, {4608, 3072}, {9216, 12288}};
  const std::array<Shape, 3> tokens = {Shape{20, 272, 384}, {1, 4608, 3072}, {8, 4608, 3072}};
  const std::array<Shape, 3> heads = {Shape{20, 272, 6, 64}, {1, 4608, 24, 128}, {8, 4608, 24, 128}};
  const std::array<Shape, 3> inner = {Shape{1, 128, 128, 128}, {1, 256, 256, 256}, {1, 128, 1024, 1024}};
  static const std::vector<BodyKind> kKinds = {
      {"bias_gelu_quantize", bias_gelu_quantize, wide},
      {"silu_mul", silu_mul, wide},
      {"rms_norm_residual", rms_norm_residual, rows},
      {"norm_modulate_quantize", norm_modulate_quantize, tokens},
      {"softmax_mask", softmax_mask, {Shape{20, 3, 192, 192}, {1, 24, 1024, 1024}, {1, 24, 2048, 2048}}},
      {"group_norm_silu", group_norm_silu, inner},
      {"rms_norm_rope_heads", rms_norm_rope_heads, heads},
      {"gate_residual_norm_quantize", gate_residual_norm_quantize, tokens},
      {"adamw", adamw, {Shape{2048, 1024}, {4608, 3072}, {8192, 3072}}},
      {"cross_entropy", cross_entropy, {Shape{64, 32768}, {512, 32768}, {4096, 32768}}},
      {"bias_table_add", bias_table_add, {Shape{64, 8, 64, 64}, {256, 16, 64, 64}, {2048, 16, 64, 64}}},
      {"upsample_add", upsample_add, inner},
      {"pixel_shuffle", pixel_shuffle, inner},
      {"clamp_to_u8", clamp_to_u8, {Shape{1, 3, 1024, 1024}, {8, 3, 1024, 1024}, {64, 3, 1024, 1024}}},
  };
  return kKinds;
}

}  // namespace

std::vector<BodyCase> list_body_cases() {
  constexpr std::array<std::string_view, 3> kSizes = {"small", "medium", "large"};
  std::vector<BodyCase> cases;
  for (const BodyKind& kind : all_kinds())
    for (const DType dtype : {DType::kF32, DType::kBF16})
      for (std::size_t i = 0; i < kSizes.size(); ++i) {
        Body body{std::string(kind.name), dtype};
        kind.write(body, kind.sizes[i]);
        cases.push_back(
            body.take(fmt::format("{} {} {} {}", kind.name, dtype, kSizes[i], fmt::join(kind.sizes[i].dims(), "x"))));
      }
  return cases;
}

}  // namespace headroom
