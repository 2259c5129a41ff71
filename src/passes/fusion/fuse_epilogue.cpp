// fuse-epilogue: y = linear(x, w, b); z = add(residual, y)
//   -> z = linear(x, w, b, residual) {epilogue = add(e0, sum)}
//
// An elementwise op of several operands that reads the tokens[b, s, c] of a matmul joins its epilogue, if the kernels
// of the target compute that in one launch (ir/fusion_rules.hpp). A GEMM adds a residual at almost no cost (1% of its
// time at most, on an H200), and a launch that reads and writes the result once more is saved.
//
// Tokens that become an image and are added to one, image + to_image(linear(tokens, w, b)), are added as tokens:
// conversion between tokens and channels-last pixels is a view. An 8-bit matmul over such tokens takes the image as its
// residual.
//
// Sums that a norm reads are left alone: fuse-rows fuses the addition with the norm. So are the vectors[b, c] of a
// time step: it fuses their sums with the activation that follows.

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ir/fusion_rules.hpp"
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

/// The linear that makes a value without other readers; null if there is none.
const Node* linear_behind(const Rewriter& r, ValueId value) {
  return r.is_weight(value) ? nullptr : r.match_single_use(value, Op::kLinear);
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

bool is_read_by_norm(const Rewriter& r, ValueId value) {
  const auto is_norm = [](const Node* reader) { return definition_of(reader->op).goes_along_rows; };
  return std::ranges::any_of(r.readers_from_here(value), is_norm);
}

/// Whether a kernel of the target runs the matmul with these attributes and that many more operands of its result's
/// type.
bool runs_with(const Rewriter& r, const Target& target, const Node& matmul, const Attributes& attributes,
               std::size_t more) {
  std::vector<TensorType> types;
  for (const ValueId input : matmul.inputs) types.push_back(r.type(input));
  const TensorType& made = r.type(matmul.results[0]);
  types.insert(types.end(), more, made);
  return target.fusion->runs(target, matmul.op, attributes, types, made);
}

/// The attributes of a matmul that ends with the elementwise node, of which it is operand `position`; nothing if it
/// has operands after its own already.
std::optional<Attributes> ended_by(const Node& matmul, const Node& node, std::size_t position) {
  if (matmul.op != Op::kLinear) return node.op == Op::kAdd ? std::optional(matmul.attributes) : std::nullopt;
  const Epilogue& epilogue = matmul.attributes[attr::kEpilogue];
  if (epilogue.operand_count() > 0) return std::nullopt;
  return matmul.attributes.with(attr::kEpilogue, epilogue.then(node.op, position));
}

/// Fuses an elementwise node over an image or over tokens with the matmul that makes its operand `position`.
bool fuse_into(Rewriter& r, const Target& target, const Node& node, std::size_t position) {
  const ValueId made = node.results[0];
  const TensorType type = r.type(made);
  const bool is_image = type.shape.rank() == 4 && type.layout == Layout::kChannelsLast;
  if (!is_image && type.shape.rank() != 3) return false;
  const Node* matmul =
      is_image ? matmul_behind_image(r, node.inputs[position]) : linear_behind(r, node.inputs[position]);
  const auto may_join = [&](ValueId operand) {
    return r.type(operand) == type && (operand == node.inputs[position] || !r.is_weight(operand));
  };
  if (matmul == nullptr || !std::ranges::all_of(node.inputs, may_join)) return false;

  std::optional<Attributes> attributes = ended_by(*matmul, node, position);
  if (!attributes || !runs_with(r, target, *matmul, *attributes, node.inputs.size() - 1)) return false;

  const std::string path = matmul->path;
  std::vector<ValueId> inputs = matmul->inputs;
  for (std::size_t k = 0; k < node.inputs.size(); ++k)
    if (k != position) inputs.push_back(is_image ? to_tokens(r, node.inputs[k], path) : node.inputs[k]);
  const ValueId ended = r.emit_like(*matmul, std::move(inputs), *std::move(attributes));
  r.replace(made, is_image ? to_pixels(r, ended, type.shape[2], type.shape[3], path) : ended);
  return true;
}

bool fuse_end(Rewriter& r, const Target& target, const Node& node) {
  const bool may_end = node.results.size() == 1 && Epilogue::may_contain(node.op) && node.inputs.size() > 1;
  if (!may_end || r.type(node.results[0]).shape.numel() == 0 || is_read_by_norm(r, node.results[0])) return false;
  for (std::size_t position = 0; position < node.inputs.size(); ++position)
    if (fuse_into(r, target, node, position)) return true;
  return false;
}

}  // namespace

PassOutcome fuse_epilogue(Graph& graph, const Target& target) {
  if (target.fusion == nullptr) return {};
  return {.rewrites = rewrite_each(graph, [&](Rewriter& r, const Node& node) { return fuse_end(r, target, node); })};
}

}  // namespace headroom
