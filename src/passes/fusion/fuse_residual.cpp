// fuse-residual: image + to_image(linear(tokens, w[o, c], bias))
//   -> conv2d(to_image(tokens), w[o, c, 1, 1], bias, image)
//
// A matmul can add a residual in its epilogue at almost no cost (1% of its time at most, on an H200). This replaces a
// launch that reads and writes the image once more. A linear over tokens equals a 1x1 convolution, and the
// convolution has an operand for the residual; conversion from tokens to channels-last pixels and back is a view.
// Applies on a GPU, where the kernels of such convolutions are GEMMs.
//
// The same applies to tokens added to tokens, [b, s, c], unless a norm reads the sum: then fuse-rows fuses the
// addition with the norm. An 8-bit matmul has a residual operand of its own, which takes the image as tokens.

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "ir/op_definition.hpp"
#include "passes/pass.hpp"
#include "passes/rewrite.hpp"

namespace headroom {
namespace {

/// Tokens [b, s, c] as pixels [b, c, h, w], s = h w, channels-last: views.
ValueId to_pixels(Rewriter& r, ValueId tokens, std::int64_t height, std::int64_t width, const std::string& path) {
  const Shape shape = r.shape(tokens);
  const ValueId pixels =
      r.emit(Op::kReshape, {tokens}, {{attr::kShape, Ints{shape[0], height, width, shape[2]}}}, path);
  const ValueId image = r.emit(Op::kTranspose, {pixels}, {{attr::kPerm, Ints{0, 3, 1, 2}}}, path);
  r.set_layout(image, Layout::kChannelsLast);
  return image;
}

ValueId to_tokens(Rewriter& r, ValueId image, const std::string& path) {
  const Shape shape = r.shape(image);
  const ValueId pixels = r.emit(Op::kTranspose, {image}, {{attr::kPerm, Ints{0, 2, 3, 1}}}, path);
  r.set_layout(pixels, Layout::kRowMajor);
  return r.emit(Op::kReshape, {pixels}, {{attr::kShape, Ints{shape[0], shape[2] * shape[3], shape[1]}}}, path);
}

bool has_bias_alone(const Node& matmul) {
  return matmul.input(Role::kBias) != kNoValue && matmul.input(Role::kResidual) == kNoValue;
}

/// The 8-bit matmul over tokens[b, s, c] that makes a value without other readers; null if there is none that can add
/// a residual.
const Node* quantized_behind(const Rewriter& r, ValueId value) {
  const Node* matmul = r.match_single_use(value, Op::kScaledLinear);
  const bool can_add = matmul != nullptr && has_bias_alone(*matmul) && r.shape(matmul->input(Role::kX)).rank() == 3 &&
                       r.type(matmul->input(Role::kX)).dtype == DType::kF8E4M3 &&
                       matmul->attributes[attr::kActivation] == Activation::kNone;
  return can_add ? matmul : nullptr;
}

/// The linear over tokens[b, s, c] that makes a value without other readers; null if there is none that can become a
/// convolution.
const Node* linear_behind(const Rewriter& r, ValueId value) {
  const Node* linear = r.match_single_use(value, Op::kLinear);
  if (linear == nullptr || r.shape(linear->input(Role::kX)).rank() != 3) return nullptr;
  const ValueId bias = linear->input(Role::kBias);
  const bool is_plain = linear->attributes[attr::kActivation] == Activation::kNone && bias != kNoValue &&
                        r.is_weight(linear->input(Role::kWeight)) && r.is_weight(bias) &&
                        r.type(bias).dtype == r.type(value).dtype;
  return is_plain && !r.is_weight(value) ? linear : nullptr;
}

/// The same through the views that make an image of tokens, in 8 bits or not.
const Node* matmul_behind_image(const Rewriter& r, ValueId image) {
  const Node* reshape = r.match_single_use(image, Op::kReshape);
  if (reshape != nullptr && r.shape(reshape->inputs[0]) == r.shape(image))  // a layout change
    reshape = r.match_single_use(reshape->inputs[0], Op::kReshape);
  if (reshape == nullptr || r.shape(reshape->inputs[0]).rank() != 3) return nullptr;
  const Shape &rows = r.shape(reshape->inputs[0]), &pixels = r.shape(image);
  const Node* transpose = r.match_single_use(reshape->inputs[0], Op::kTranspose);
  const bool is_image = rows[0] == pixels[0] && rows[1] == pixels[1] && transpose != nullptr &&
                        transpose->attributes[attr::kPerm] == Ints{0, 2, 1};
  if (!is_image) return nullptr;
  const Node* linear = linear_behind(r, transpose->inputs[0]);
  return linear != nullptr ? linear : quantized_behind(r, transpose->inputs[0]);
}

ValueId emit_convolution(Rewriter& r, const Node& linear, ValueId image, std::int64_t height, std::int64_t width) {
  const Shape weight = r.shape(linear.input(Role::kWeight));
  const ValueId filter = r.emit(Op::kReshape, {linear.input(Role::kWeight)},
                                {{attr::kShape, Ints{weight[0], weight[1], 1, 1}}}, linear.path);
  const ValueId pixels = to_pixels(r, linear.input(Role::kX), height, width, linear.path);
  return r.emit(Op::kConv2d, {pixels, filter, linear.input(Role::kBias), image},
                {{attr::kTf32, linear.attributes[attr::kTf32]}}, linear.path);
}

bool is_read_by_norm(const Rewriter& r, ValueId value) {
  const auto is_norm = [](const Node* reader) { return definition_of(reader->op).goes_along_rows; };
  return std::ranges::any_of(r.readers_from_here(value), is_norm);
}

bool fuse_sum(Rewriter& r, const Node& sum) {
  if (sum.op != Op::kAdd) return false;
  const ValueId made = sum.results[0];
  const TensorType type = r.type(made);
  const bool is_image = type.shape.rank() == 4 && type.layout == Layout::kChannelsLast;
  if (!is_image && (type.shape.rank() != 3 || is_read_by_norm(r, made))) return false;
  for (const std::size_t k : {0U, 1U}) {
    const ValueId residual = sum.inputs[1 - k];
    if (r.type(residual) != type || r.is_weight(residual)) continue;
    const Node* matmul = is_image ? matmul_behind_image(r, sum.inputs[k]) : linear_behind(r, sum.inputs[k]);
    if (matmul == nullptr || type.shape.numel() == 0) continue;
    const std::string path = matmul->path;
    if (matmul->op == Op::kScaledLinear) {
      const ValueId tokens = r.emit_with(*matmul, {{Role::kResidual, to_tokens(r, residual, path)}});
      r.replace(made, to_pixels(r, tokens, type.shape[2], type.shape[3], path));
    } else if (is_image) {
      r.replace(made, emit_convolution(r, *matmul, residual, type.shape[2], type.shape[3]));
    } else {
      const ValueId image = to_pixels(r, residual, type.shape[1], 1, path);
      r.replace(made, to_tokens(r, emit_convolution(r, *matmul, image, type.shape[1], 1), path));
    }
    return true;
  }
  return false;
}

}  // namespace

PassOutcome fuse_residual(Graph& graph, const Target& target) {
  if (target.device != DeviceKind::kCuda) return {};
  return {.rewrites = rewrite_each(graph, fuse_sum)};
}

}  // namespace headroom
