// fuse-epilogue, fuse-token-epilogue: y = conv2d(x, w, b); z = silu(add(y, residual))
//   -> z = conv2d(x, w, b, residual) {epilogue = silu(add(sum, e0))}
//
// An elementwise op that reads the result of a matmul, a convolution or a group norm joins its epilogue, if the kernels
// of the target compute that in one launch (ir/fusion_rules.hpp) and nothing else reads the result. It then runs on
// values that are still in registers: a GEMM adds a residual at almost no cost (1% of its time at most, on an H200),
// and a launch that reads and writes the result once more is saved. A vector of weights that is added to a linear is
// its bias then.
//
// fuse-epilogue runs early. fuse-token-epilogue runs late and adds what matmuls of tokens leave until then, because
// precision and layout decide about it: ops with further operands of a linear's tokens[b, s, c] or an 8-bit matmul.
//  - Tokens that become an image and are added to one, image + to_image(linear(tokens, w, b)), are added as tokens:
//    conversion between tokens and channels-last pixels is a view.
//  - Sums of a linear that a norm reads are left alone: fuse-rows fuses the addition with the norm. So are the
//    vectors[b, c] of a time step: it fuses their sums with the activation that follows. Sums of 8-bit matmuls are not.
//  - residual + gate * scaled_linear(xq, x_scale, wq, w_scale, bias): a gate that all rows have in common becomes part
//    of w_scale and bias, because its elements belong to the columns of the matmul, like those of w_scale.

#include <algorithm>
#include <functional>
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

/// The linear or 8-bit matmul that makes a value without other readers; null if there is none.
const Node* matmul_behind(const Rewriter& r, ValueId value) {
  if (r.is_weight(value)) return nullptr;
  const Node* linear = r.match_single_use(value, Op::kLinear);
  return linear != nullptr ? linear : r.match_single_use(value, Op::kScaledLinear);
}

/// The same through the views that make an image of tokens.
const Node* matmul_behind_image(const Rewriter& r, ValueId image) {
  const Node* reshape = r.match_single_use(image, Op::kReshape);
  if (reshape != nullptr && r.shape(reshape->inputs[0]) == r.shape(image))  // a layout change
    reshape = r.match_single_use(reshape->inputs[0], Op::kReshape);
  if (reshape == nullptr || r.shape(reshape->inputs[0]).rank() != 3) return nullptr;
  const Shape &rows = r.shape(reshape->inputs[0]), &pixels = r.shape(image);
  const Node* transpose = r.match_single_use(reshape->inputs[0], Op::kTranspose);
  const bool is_image = rows[0] == pixels[0] && rows[1] == pixels[1] && transpose != nullptr &&
                        transpose->attributes[attr::kPerm] == Ints{0, 2, 1};
  return is_image ? matmul_behind(r, transpose->inputs[0]) : nullptr;
}

bool is_read_by_norm(const Rewriter& r, ValueId value) {
  const auto is_norm = [](const Node* reader) { return definition_of(reader->op).goes_along_rows; };
  return std::ranges::any_of(r.readers_from_here(value), is_norm);
}

/// Whether a kernel of the target runs the matmul with these attributes. Operands that its epilogue then has more are
/// of the result's type.
bool runs_with(const Rewriter& r, const Target& target, const Node& matmul, const Attributes& attributes) {
  std::vector<TensorType> types;
  for (const ValueId input : matmul.inputs) types.push_back(r.type(input));
  const TensorType& made = r.type(matmul.results[0]);
  types.insert(types.end(), attributes.epilogue_operands() - matmul.attributes.epilogue_operands(), made);
  return target.fusion->runs(target, matmul.op, attributes, types, made);
}

/// The matmul with its epilogue followed by an op, of which it is operand `position`, and with these further operands;
/// kNoValue if no kernel runs that. An epilogue with operands takes no more of them.
ValueId end_with(Rewriter& r, const Target& target, const Node& matmul, Op op, std::size_t position,
                 const std::function<void(std::vector<ValueId>&)>& add_operands) {
  if (matmul.attributes.epilogue_operands() > 0 && arity_in_epilogue(op) > 1) return kNoValue;
  const Attributes ended =
      matmul.attributes.with(attr::kEpilogue, matmul.attributes[attr::kEpilogue].then(op, position));
  if (!runs_with(r, target, matmul, ended)) return kNoValue;
  std::vector<ValueId> inputs = matmul.inputs;
  add_operands(inputs);
  return r.emit_like(matmul, std::move(inputs), ended);
}

/// Whether an elementwise node over an image or over tokens may join the matmul that makes its operand `position`.
bool may_join(const Rewriter& r, const Node& node, std::size_t position, const Node& matmul) {
  const TensorType& type = r.type(node.results[0]);
  if (!std::ranges::all_of(node.inputs, [&](ValueId operand) { return r.type(operand) == type; })) return false;
  if (matmul.op == Op::kScaledLinear) return true;
  const auto is_there = [&](ValueId operand) { return operand == node.inputs[position] || !r.is_weight(operand); };
  return type.shape.rank() > 2 && std::ranges::all_of(node.inputs, is_there) && !is_read_by_norm(r, node.results[0]);
}

bool fuse_late(Rewriter& r, const Target& target, const Node& node, std::size_t position) {
  if (node.inputs.size() < 2) return false;
  const ValueId made = node.results[0];
  const TensorType type = r.type(made);
  const bool is_image = type.shape.rank() == 4 && type.layout == Layout::kChannelsLast;
  const Node* matmul =
      is_image ? matmul_behind_image(r, node.inputs[position]) : matmul_behind(r, node.inputs[position]);
  if (matmul == nullptr || !may_join(r, node, position, *matmul)) return false;
  const std::string path = matmul->path;
  const ValueId ended = end_with(r, target, *matmul, node.op, position, [&](std::vector<ValueId>& inputs) {
    for (std::size_t k = 0; k < node.inputs.size(); ++k)
      if (k != position) inputs.push_back(is_image ? to_tokens(r, node.inputs[k], path) : node.inputs[k]);
  });
  if (ended == kNoValue) return false;
  r.replace(made, is_image ? to_pixels(r, ended, type.shape[2], type.shape[3], path) : ended);
  return true;
}

/// Calls fuse(position) for the operands of a node that may be part of an epilogue, from the last, until it succeeds.
template <class Fuse>
bool fuse_operand(const Node& node, const Fuse& fuse) {
  if (!Epilogue::may_contain(node.op)) return false;
  for (std::size_t position = node.inputs.size(); position-- > 0;)
    if (fuse(position)) return true;
  return false;
}

/// linear(x, weight) + bias[n], as in graphs exported op by op. The result of the matmul is then not rounded before
/// the bias is added.
bool fuse_bias(Rewriter& r, const Node& node, std::size_t position) {
  const Node* linear = node.op == Op::kAdd ? r.match_single_use(node.inputs[position], Op::kLinear) : nullptr;
  if (linear == nullptr || linear->inputs.size() > 2) return false;
  const ValueId bias = node.inputs[1 - position];
  const Shape columns{r.shape(linear->input(Role::kWeight))[0]};
  if (!r.is_weight(bias) || r.shape(bias) != columns || !linear->attributes[attr::kEpilogue].is_empty()) return false;
  r.replace(node.results[0], r.emit_with(*linear, {{Role::kBias, bias}}));
  return true;
}

/// "blocks.3.mlp" of "blocks.3.mlp.gate_proj"
std::string_view module_of(const Node& node) {
  return std::string_view(node.path).substr(0, std::min(node.path.rfind('.'), node.path.size()));
}

/// Whether the activation `node` of a linear gates another linear of the same x and module, without an epilogue.
bool is_gate_of_linear(const Rewriter& r, const Node& node, const Node& linear) {
  if (linear.op != Op::kLinear || node.inputs.size() != 1 || !linear.attributes[attr::kEpilogue].is_empty())
    return false;
  const std::vector<const Node*> readers = r.readers_from_here(node.results[0]);
  if (readers.size() != 1 || readers.front()->op != Op::kMul) return false;
  return std::ranges::any_of(readers.front()->inputs, [&](ValueId factor) {
    const Node* const other = factor == node.results[0] ? nullptr : r.match_single_use(factor, Op::kLinear);
    return other != nullptr && other->input(Role::kX) == linear.input(Role::kX) &&
           other->attributes[attr::kEpilogue].is_empty() && module_of(*other) == module_of(linear);
  });
}

/// Any op of one operand; one of several, unless the sum is of tokens.
bool fuse_early(Rewriter& r, const Target& target, const Node& node, std::size_t position) {
  const Node* maker = r.single_use_producer(node.inputs[position]);
  if (maker == nullptr || !maker->attributes.has(attr::kEpilogue)) return false;
  if (node.inputs.size() > 1 && is_matmul(maker->op)) return false;
  if (target.device->has_launches && is_gate_of_linear(r, node, *maker)) return false;
  const TensorType type = r.type(node.results[0]);
  if (!std::ranges::all_of(node.inputs, [&](ValueId operand) { return r.type(operand) == type; })) return false;
  const ValueId ended = end_with(r, target, *maker, node.op, position, [&](std::vector<ValueId>& inputs) {
    for (std::size_t k = 0; k < node.inputs.size(); ++k)
      if (k != position) inputs.push_back(node.inputs[k]);
  });
  if (ended == kNoValue) return false;
  r.replace(node.results[0], ended);
  return true;
}

ValueId cast(Rewriter& r, ValueId value, DType dtype, const std::string& path) {
  return r.type(value).dtype == dtype ? value : r.emit(Op::kCast, {value}, {{attr::kDType, dtype}}, path);
}

bool fuse_gate(Rewriter& r, const Target& target, const Node& node) {
  if (node.op != Op::kGateResidual) return false;
  const Node* matmul = r.match_single_use(node.input(Role::kX), Op::kScaledLinear);
  const ValueId residual = node.input(Role::kResidual), gate = node.input(Role::kGate);
  if (matmul == nullptr || !matmul->attributes[attr::kEpilogue].is_empty() || r.shape(gate)[0] != 1) return false;
  const std::string path = matmul->path;
  const std::vector<std::size_t> vectors = {position_of(Op::kScaledLinear, Role::kWeightScale),
                                            position_of(Op::kScaledLinear, Role::kBias)};
  const ValueId ended = end_with(r, target, *matmul, Op::kAdd, 1, [&](std::vector<ValueId>& inputs) {
    const Ints columns{r.shape(gate)[2]};
    const ValueId factors = cast(r, r.emit(Op::kReshape, {gate}, {{attr::kShape, columns}}, path), DType::kF32, path);
    for (const std::size_t vector : vectors) {
      if (vector >= inputs.size()) continue;  // no bias
      const DType dtype = r.type(inputs[vector]).dtype;
      const ValueId gated = r.emit(Op::kMul, {cast(r, inputs[vector], DType::kF32, path), factors}, {}, path);
      inputs[vector] = cast(r, gated, dtype, path);
    }
    inputs.push_back(residual);
  });
  if (ended == kNoValue) return false;
  r.replace(node.results[0], ended);
  return true;
}

}  // namespace

PassOutcome fuse_epilogue(Graph& graph, const Target& target) {
  return {.rewrites = rewrite_each(graph, [&](Rewriter& r, const Node& node) {
            return fuse_operand(node, [&](std::size_t position) {
              return fuse_bias(r, node, position) ||
                     (target.fusion != nullptr && fuse_early(r, target, node, position));
            });
          })};
}

PassOutcome fuse_token_epilogue(Graph& graph, const Target& target) {
  if (target.fusion == nullptr) return {};
  return {.rewrites = rewrite_each(graph, [&](Rewriter& r, const Node& node) {
            return fuse_gate(r, target, node) ||
                   fuse_operand(node, [&](std::size_t position) { return fuse_late(r, target, node, position); });
          })};
}

}  // namespace headroom
