// align: y: bf16[b, 60, h, w] = conv2d(x: bf16[b, 3, h, w], w: bf16[60, 3, kh, kw])
//   -> x': bf16[b, 8, h, w] = pad(x), y': bf16[b, 64, h, w] = conv2d(x', pad(w)), y = slice(y')
//
// Matrix units read channels in vectors of 16 bytes, say. Numbers of channels that do not fill those of the target are
// padded with zeros. Weights are padded once. Values between two convolutions stay padded: elementwise ops that map
// zero to zero, resizing, pooling, and group norms, which count only the real channels. Exact: multiplications with
// zeros add nothing. The pass declines if hardly any of the FLOPs have such channels, as in an autoencoder of which
// only the first and last layer have three.

#include <algorithm>
#include <map>
#include <vector>

#include "ir/interpreter.hpp"
#include "ir/op_definition.hpp"
#include "passes/channel_vectors.hpp"
#include "passes/pass.hpp"
#include "passes/rewrite.hpp"

namespace headroom {
namespace {

constexpr int kChannels = 1;  // the axis of images; of a convolution's weight, 0 and 1 are its channels

std::int64_t round_up(std::int64_t channels, std::int64_t vector) { return (channels + vector - 1) / vector * vector; }

/// Whether an elementwise op maps zeros to zero.
bool keeps_zeros(const Node& node) {
  const OracleTensor zero{{DType::kF32, Shape{}}, {0.0}, {}};
  const std::vector<OracleTensor> operands(node.inputs.size(), zero);
  const std::vector<OracleTensor> results = interpret_node(node.op, node.attributes, operands);
  return std::ranges::all_of(results, [](const OracleTensor& result) { return result.reals == std::vector{0.0}; });
}

/// Whether an epilogue maps a sum of zero, and operands of zero, to zero.
bool keeps_zeros(const Epilogue& epilogue) {
  const OracleTensor zero{{DType::kF32, Shape{}}, {0.0}, {}};
  const std::vector<OracleTensor> operands(epilogue.operand_count(), zero);
  const auto apply = [](Op op, std::span<const OracleTensor> args) {
    return interpret_node(op, Attributes(op, {}), std::vector(args.begin(), args.end()))[0];
  };
  return epilogue.evaluate(zero, std::span(operands), apply).reals == std::vector{0.0};
}

class Align {
 public:
  explicit Align(const Target& target) : target_(target) {}

  bool rewrite(Rewriter& r, const Node& node) {
    if (r.type(node.results[0]).shape.rank() != 4 || r.is_weight(node.results[0])) return false;
    if (node.op == Op::kConv2d) return align_convolution(r, node, 0, 1);
    if (node.op == Op::kConvTranspose2d) return align_convolution(r, node, 1, 0);
    return align_between(r, node);
  }

 private:
  /// `out` and `in` are the axes of the weight.
  bool align_convolution(Rewriter& r, const Node& node, int out, int in) {
    if (node.attributes[attr::kGroups] != 1 || !r.is_weight(node.input(Role::kWeight))) return false;
    const std::int64_t vector = image_form_of(r.graph(), node, target_).channel_multiple;
    const Shape& weight = r.shape(node.input(Role::kWeight));
    const std::int64_t made = round_up(weight[out], vector), read = round_up(weight[in], vector);
    if (made == weight[out] && read == weight[in]) return false;
    if (made != weight[out] && !keeps_zeros(node.attributes[attr::kEpilogue])) return false;
    std::vector<ValueId> inputs = node.inputs;
    for (std::size_t k = 0; k < inputs.size(); ++k) {
      if (k >= node.own_operands()) {  // of the epilogue, and of the result's shape
        inputs[k] = filled(r, inputs[k], made, node);
        continue;
      }
      const Role role = schema_of(node.op).operands.at(k).role;
      if (role == Role::kX) inputs[k] = filled(r, inputs[k], read, node);
      if (role == Role::kWeight) inputs[k] = pad(r, pad(r, inputs[k], in, read, node), out, made, node);
      if (role == Role::kBias) inputs[k] = pad(r, inputs[k], 0, made, node);
    }
    replace(r, node, r.emit_like(node, inputs, node.attributes));
    return true;
  }

  /// Ops that keep channels padded if their input is padded.
  bool align_between(Rewriter& r, const Node& node) {
    const auto first = filled_.find(node.inputs.empty() ? kNoValue : node.inputs[0]);
    if (first == filled_.end()) return false;
    std::vector<ValueId> inputs = node.inputs;
    Attributes attributes = node.attributes;
    const std::int64_t channels = r.shape(first->second)[kChannels];
    if (node.op == Op::kGroupNorm) {
      if (!keeps_zeros(attributes[attr::kEpilogue])) return false;
      if (attributes[attr::kChannels] == 0)
        attributes = attributes.with(attr::kChannels, r.shape(node.inputs[0])[kChannels]);
      for (std::size_t k = 1; k < inputs.size(); ++k)
        inputs[k] =
            k < node.own_operands() ? pad(r, inputs[k], 0, channels, node) : filled(r, inputs[k], channels, node);
    } else if (is_elementwise(node.op)) {
      if (!keeps_zeros(node)) return false;
      for (ValueId& input : inputs) {
        const auto found = filled_.find(input);
        if (found == filled_.end() || r.shape(input) != r.shape(node.inputs[0])) return false;
        input = found->second;
      }
    } else if (node.op != Op::kResize2d && node.op != Op::kAvgPool2d && node.op != Op::kMaxPool2d) {
      return false;
    }
    inputs[0] = first->second;
    replace(r, node, r.emit_like(node, inputs, attributes));
    return true;
  }

  /// Makes readers of the node's result read its channels in `wide`.
  void replace(Rewriter& r, const Node& node, ValueId wide) {
    const std::int64_t channels = r.shape(node.results[0])[kChannels];
    if (r.shape(wide)[kChannels] == channels) return r.replace(node.results[0], wide);
    const ValueId narrow =
        r.emit(Op::kSlice, {wide}, {{attr::kAxis, kChannels}, {attr::kStart, 0}, {attr::kExtent, channels}}, node.path);
    filled_.emplace(narrow, wide);
    r.replace(node.results[0], narrow);
  }

  /// The image with that many channels: as it was made, or by a copy.
  ValueId filled(Rewriter& r, ValueId image, std::int64_t channels, const Node& reader) {
    const auto found = filled_.find(image);
    if (found != filled_.end() && r.shape(found->second)[kChannels] == channels) return found->second;
    return pad(r, image, kChannels, channels, reader);
  }

  static ValueId pad(Rewriter& r, ValueId value, int axis, std::int64_t extent, const Node& reader) {
    const Shape& shape = r.shape(value);
    if (shape[axis] == extent) return value;
    std::vector<std::int64_t> before(static_cast<std::size_t>(shape.rank())), after = before;
    after[static_cast<std::size_t>(axis)] = extent - shape[axis];
    return r.emit(Op::kPad, {value}, {{attr::kBefore, std::move(before)}, {attr::kAfter, std::move(after)}},
                  reader.path);
  }

  const Target& target_;
  std::map<ValueId, ValueId> filled_;  // slices of values with zeros in additional channels, and these values
};

}  // namespace

PassOutcome align(Graph& graph, const Target& target) {
  constexpr double kLeastShare = 0.01;  // of the FLOPs; less is not worth the copies
  Align align(target);
  int rewrites = 0;
  if (share_on_full_vectors(graph, target) < 1 - kLeastShare)
    rewrites = rewrite_each(graph, [&](Rewriter& r, const Node& node) { return align.rewrite(r, node); });
  return outcome_of(
      rewrites,
      "at most 1% of the arithmetic of convolutions is on channels that do not fill the vectors of a matrix unit");
}

}  // namespace headroom
