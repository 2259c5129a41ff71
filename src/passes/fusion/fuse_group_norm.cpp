// fuse-group-norm: silu(group_norm(concat(a, b) + shift) * (scale + 1) + offset)
//   -> fused(a, b, shift, scale, offset, ...) {body = concat, add, group_norm, mul, add, silu}
//
// A group norm reads its image once for the moments and once more to write the result. Ops around it, with
// per-channel vectors (a U-Net's step) or a concatenation (its skip connections), cost nothing inside this kernel and
// a pass over memory each outside. Applies to channels-last images if kernels are generated and a kernel of the target
// runs the result (ir/fusion_rules.hpp). If the concatenation has other readers, such as the shortcut of a residual
// block, it becomes a second result.

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "ir/activation.hpp"
#include "ir/builder.hpp"
#include "ir/fusion_rules.hpp"
#include "ir/text/text.hpp"
#include "lower/group_norm_program.hpp"
#include "passes/pass.hpp"
#include "passes/rewrite.hpp"

namespace headroom {
namespace {

/// The ops around a norm: its image in parts, a per-channel vector that is added to it, and per-channel scale and
/// offset of its result.
struct Around {
  std::vector<ValueId> parts;
  ValueId shift = kNoValue;
  ValueId scale = kNoValue, offset = kNoValue;
  double more = 0;  ///< added to scale
  Activation activation = Activation::kNone;
};

bool joins_two_along_channels(const Node& concat) {
  return concat.op == Op::kConcat && concat.attributes[attr::kAxis] == 1 && concat.inputs.size() == 2;
}

/// The norm and the ops around it as the operands and body of one op.
struct Fused {
  std::vector<ValueId> inputs;
  Graph body;
};

/// Whether a kernel of the target runs it.
bool has_kernel(const Rewriter& r, const Target& target, const Fused& fused) {
  if (std::holds_alternative<std::string>(group_norm_program_of(fused.body))) return false;
  std::vector<TensorType> types;
  for (const ValueId input : fused.inputs) types.push_back(r.type(input));
  return target.fusion->runs(target, Op::kFused, Attributes(Op::kFused, {{attr::kBody, canonical_text(fused.body)}}),
                             types, fused.body.type(fused.body.outputs()[0].value));
}

/// Nothing if no kernel would run the result.
std::optional<Fused> fuse_norm(const Rewriter& r, const Target& target, const Node& norm, const Around& around,
                               bool makes_whole = false) {
  const bool is_joined = around.parts.size() > 1, is_shifted = around.shift != kNoValue,
             is_scaled = around.scale != kNoValue;
  Fused fused{.inputs = {},
              .body = Graph(fmt::format("{}{}group_norm{}", is_joined ? "concat_" : "", is_shifted ? "add_" : "",
                                        is_scaled ? "_mul_add" : ""))};
  Builder builder(fused.body);
  const auto input = [&](ValueId value) {
    const ValueId own = fused.body.add_input(fmt::format("x{}", fused.inputs.size()), r.type(value));
    fused.inputs.push_back(value);
    return builder.cast(own, DType::kF32);
  };
  std::vector<ValueId> parts;
  for (const ValueId part : around.parts) parts.push_back(input(part));
  ValueId x = is_joined ? builder.concat(parts, 1) : parts[0];
  const ValueId whole = x;
  if (is_shifted) x = builder.add(x, input(around.shift));
  std::vector<ValueId> operands = {x};
  for (std::size_t k = 1; k < norm.inputs.size(); ++k) operands.push_back(input(norm.inputs[k]));
  NamedAttributes attributes;
  for (const auto& [name, value] : norm.attributes.all()) attributes.emplace_back(name, value);
  x = builder.emit(Op::kGroupNorm, operands, attributes)[0];
  if (is_scaled) {
    const ValueId scale = input(around.scale);
    x = builder.mul(x, around.more == 0 ? scale : builder.add_scalar(scale, around.more));
    x = builder.add(x, input(around.offset));
  }
  if (around.activation != Activation::kNone) x = builder.emit(op_of(around.activation), {x})[0];
  const DType dtype = r.type(norm.results[0]).dtype;
  fused.body.add_output("y0", builder.cast(x, dtype));
  if (makes_whole) fused.body.add_output("y1", builder.cast(whole, dtype));
  return has_kernel(r, target, fused) ? std::optional(std::move(fused)) : std::nullopt;
}

/// The image and the per-channel vector among the operands of an addition or multiplication; nothing if the operands
/// are others.
struct ImageAndVector {
  ValueId image, vector;
};
std::optional<ImageAndVector> image_and_vector(const Rewriter& r, const Node& node) {
  const Shape& image = r.shape(node.results[0]);
  for (const std::size_t k : {1U, 0U})
    if (const Shape& shape = r.shape(node.inputs[k]); shape != image && is_channel_vector(shape, image))
      return ImageAndVector{node.inputs[1 - k], node.inputs[k]};
  return std::nullopt;
}

void take_ops_before(const Rewriter& r, const Node& norm, Around& around) {
  around.parts = {norm.input(Role::kX)};
  if (const Node* sum = r.match_single_use(norm.input(Role::kX), Op::kAdd))
    if (const auto shifted = image_and_vector(r, *sum)) {
      around.parts = {shifted->image};
      around.shift = shifted->vector;
    }
  const Node* concat = r.match_single_use(around.parts[0], Op::kConcat);
  if (concat != nullptr && joins_two_along_channels(*concat)) around.parts = concat->inputs;
}

bool replace(Rewriter& r, const Target& target, const Node& norm, const Around& around, ValueId made) {
  const std::optional<Fused> fused = fuse_norm(r, target, norm, around);
  if (!fused) return false;
  r.replace(made, r.emit(Op::kFused, fused->inputs, {{attr::kBody, canonical_text(fused->body)}}, norm.path));
  return true;
}

bool fuse_front(Rewriter& r, const Target& target, const Node& norm) {
  if (norm.op != Op::kGroupNorm) return false;
  Around around;
  take_ops_before(r, norm, around);
  if (around.parts.size() == 1 && around.shift == kNoValue) return false;
  return replace(r, target, norm, around, norm.results[0]);
}

/// The last op after a norm: the offset, or the activation of that.
bool fuse_both_sides(Rewriter& r, const Target& target, const Node& last) {
  Around around;
  const Node* sum = &last;
  if (const std::optional<Activation> activation = activation_for(last.op)) {
    sum = r.match_single_use(last.inputs[0], Op::kAdd);
    around.activation = *activation;
  } else if (last.op == Op::kAdd) {
    const std::vector<const Node*> readers = r.readers_from_here(last.results[0]);
    if (readers.size() == 1 && activation_for(readers[0]->op)) return false;  // that is the last
  } else {
    return false;
  }
  const auto offset = sum == nullptr ? std::nullopt : image_and_vector(r, *sum);
  const Node* product = offset ? r.match_single_use(offset->image, Op::kMul) : nullptr;
  const auto scaled = product == nullptr ? std::nullopt : image_and_vector(r, *product);
  const Node* norm = scaled ? r.match_single_use(scaled->image, Op::kGroupNorm) : nullptr;
  if (norm == nullptr) return false;
  around.offset = offset->vector;
  around.scale = scaled->vector;
  if (const Node* more = r.match(around.scale, Op::kAddScalar)) {
    around.scale = more->inputs[0];
    around.more = more->attributes[attr::kValue];
  }
  take_ops_before(r, *norm, around);
  return replace(r, target, *norm, around, last.results[0]);
}

/// A concatenation that is read by a norm and by others.
bool fuse_shared_concat(Rewriter& r, const Target& target, const Node& concat) {
  if (!joins_two_along_channels(concat)) return false;
  const ValueId x = concat.results[0];
  const std::vector<const Node*> readers = r.readers_from_here(x);
  const auto found = std::ranges::find(readers, Op::kGroupNorm, &Node::op);
  if (found == readers.end() || r.match_single_use(x, Op::kConcat) != nullptr) return false;
  const Node& norm = **found;
  const auto is_there = [&](ValueId value) { return value == x || r.is_weight(value); };
  if (norm.region != concat.region || !std::ranges::all_of(norm.inputs, is_there)) return false;
  const std::optional<Fused> fused = fuse_norm(r, target, norm, {.parts = concat.inputs}, true);
  if (!fused) return false;
  const std::string path = norm.path;
  const std::vector<ValueId> made =
      r.emit_all(Op::kFused, fused->inputs, {{attr::kBody, canonical_text(fused->body)}}, path);
  r.replace(norm.results[0], made[0]);
  r.replace(x, made[1]);
  return true;
}

}  // namespace

PassOutcome fuse_group_norm(Graph& graph, const Target& target) {
  if (target.fusion == nullptr || !obstacle_to(Capability::kGeneratedKernels, target).empty()) return {};
  if (std::ranges::find(graph.nodes(), Op::kGroupNorm, &Node::op) == graph.nodes().end()) return {};
  const auto rewrites_of = [&](bool (*fuse)(Rewriter&, const Target&, const Node&)) {
    return rewrite_each(graph, [&](Rewriter& r, const Node& node) { return fuse(r, target, node); });
  };
  const int modulated = rewrites_of(fuse_both_sides);
  const int shared = rewrites_of(fuse_shared_concat);
  return {.rewrites = modulated + shared + rewrites_of(fuse_front)};
}

}  // namespace headroom
