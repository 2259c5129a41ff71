#include "train/training_step.hpp"

#include <map>
#include <optional>
#include <utility>

#include "autodiff/differentiate.hpp"
#include "base/error.hpp"
#include "ir/ops/append_graph.hpp"
#include "kernels/core/fusion_rules.hpp"
#include "passes/pass.hpp"
#include "passes/rewrite.hpp"

namespace headroom {
namespace {

/// The dtype of 16 bits that a loss casts a param to, if it does.
std::optional<DType> half_dtype_of(const Graph& loss, ValueId param) {
  for (const Node& node : loss.nodes())
    if (node.op == Op::kCast && node.inputs[0] == param)
      if (const DType dtype = loss.type(node.results[0]).dtype; is_float(dtype) && size_of(dtype) == 2) return dtype;
  return std::nullopt;
}

/// Makes what casts a weight to 16 bits read its copy.
void read_copies(Graph& graph, const std::vector<TrainedWeight>& weights) {
  std::map<ValueId, ValueId> copies;
  for (const TrainedWeight& weight : weights)
    if (weight.copy != kNoValue) copies.emplace(weight.value, weight.copy);
  rewrite_each(graph, [&](Rewriter& r, const Node& node) {
    if (node.op != Op::kCast) return false;
    const auto copy = copies.find(node.inputs[0]);
    if (copy == copies.end() || r.type(copy->second).dtype != r.type(node.results[0]).dtype) return false;
    r.replace(node.results[0], copy->second);
    return true;
  });
}

/// Makes a product of which only the transpose is read, such as a gradient of GPT-2's weights, that transpose:
/// (a b)^T = b^T a^T.
bool multiply_transposed(Rewriter& r, const Node& node) {
  if (node.op != Op::kMatmul) return false;
  const std::vector<const Node*> readers = r.readers_from_here(node.results[0]);
  if (readers.size() != 1 || readers[0]->op != Op::kTranspose || readers[0]->attributes[attr::kPerm] != Ints{1, 0})
    return false;
  const Attributes& given = node.attributes;
  r.replace(
      readers[0]->results[0],
      r.emit_like(
          node, {node.inputs[1], node.inputs[0]},
          given.with(attr::kTransposeA, !given[attr::kTransposeB]).with(attr::kTransposeB, !given[attr::kTransposeA])));
  return true;
}

/// A graph that a loss is appended to.
class LossParts {
 public:
  /// With `has_copies`, weights that the loss casts to 16 bits get a copy.
  LossParts(Builder& builder, const Graph& loss, const StepRecipe& recipe, bool has_copies)
      : b_(builder), loss_(loss), values_(loss.value_count(), kNoValue) {
    HR_CHECK(loss.outputs().size() == 1 && loss.type(loss.outputs()[0].value) == (TensorType{.shape = {}}));
    for (const ValueId param : loss.values_of(ValueKind::kParam)) {
      const auto& [kind, name, type] = loss.value(param);
      if (recipe.is_trained && !recipe.is_trained(name)) {
        values_[index_of(param)] = b_.graph().add_param(name, type);
        continue;
      }
      if (type.dtype != DType::kF32) fail("{} is {}, but only weights in f32 are trained", name, type.dtype);
      const ValueId state = b_.graph().add_state(name, type);
      values_[index_of(param)] = state;
      weights_.push_back({.name = name, .value = state, .decays = !recipe.decays || recipe.decays(name, type.shape)});
      if (const std::optional<DType> half = half_dtype_of(loss, param); half && has_copies)
        weights_.back().copy = b_.graph().add_state(copy_name(name), TensorType{.dtype = *half, .shape = type.shape});
    }
    for (const ValueId input : loss.values_of(ValueKind::kInput)) {
      const auto& [kind, name, type] = loss.value(input);
      TensorType whole = type;
      whole.shape = with_leading(type.shape, recipe.micro_batches);
      inputs_.emplace_back(input, b_.graph().add_input(name, whole));
    }
  }

  [[nodiscard]] const std::vector<TrainedWeight>& weights() const { return weights_; }

  /// The loss of the only micro-batch.
  ValueId append() {
    for (const auto& [input, whole] : inputs_)
      values_[index_of(input)] = b_.reshape(whole, extents_of(loss_.type(input).shape));
    return append_graph(b_, loss_, values_)[0];
  }
  /// That of the micro-batch `number`.
  ValueId append(ValueId number) {
    for (const auto& [input, whole] : inputs_) values_[index_of(input)] = b_.row(whole, number);
    return append_graph(b_, loss_, values_)[0];
  }

 private:
  static std::vector<std::int64_t> extents_of(const Shape& shape) { return {shape.dims().begin(), shape.dims().end()}; }
  static Shape with_leading(const Shape& shape, std::int64_t extent) {
    std::vector<std::int64_t> extents = extents_of(shape);
    extents.insert(extents.begin(), extent);
    return Shape(extents);
  }

  Builder& b_;
  const Graph& loss_;
  std::vector<ValueId> values_;
  std::vector<TrainedWeight> weights_;
  std::vector<std::pair<ValueId, ValueId>> inputs_;
};

struct LossAndGradients {
  ValueId loss = kNoValue;
  std::vector<ValueId> gradients = {};
};

/// The gradients are those of the loss times `scale`, if there is one.
LossAndGradients with_gradients(Builder& b, const std::vector<TrainedWeight>& weights, ValueId loss, ValueId scale) {
  std::vector<ValueId> wrt;
  for (const TrainedWeight& weight : weights) wrt.push_back(weight.value);
  return {.loss = loss, .gradients = differentiate(b, scale == kNoValue ? loss : b.mul(loss, scale), wrt)};
}

/// The sums over all micro-batches, in a loop whose states they are.
LossAndGradients append_sums(Builder& b, LossParts& parts, std::int64_t micro_batches, ValueId scale) {
  LossAndGradients sums;
  const auto loop = b.loop(micro_batches, "micro_batch");
  const LossAndGradients part = with_gradients(b, parts.weights(), parts.append(loop.counter()), scale);
  const ValueId is_first = b.equal(loop.counter(), b.constant({0}, {}, DType::kI32));
  const auto add_up = [&](const std::string& name, ValueId value) {
    const ValueId sum = b.graph().add_state(name, b.graph().type(value));
    const ValueId next = b.where(is_first, value, b.add(sum, value));
    b.set_next(sum, next);
    return loop.yield(next);
  };
  sums.loss = add_up("loss_sum", part.loss);
  for (std::size_t i = 0; i < parts.weights().size(); ++i)
    sums.gradients.push_back(add_up(parts.weights()[i].name + ".grad", part.gradients[i]));
  return sums;
}

/// Lets an attention give the logarithms of its sums, if the target has a kernel of the gradient that reads them.
bool keep_logsumexp(Rewriter& r, const Node& node, const Target& target) {
  if (node.op != Op::kAttention || node.inputs.size() != 3 || node.attributes[attr::kLogsumexp]) return false;
  const Attributes with_sums = node.attributes.with(attr::kLogsumexp, true);
  const Attributes of_gradient(Op::kAttentionBackward, {{attr::kScale, node.attributes[attr::kScale]},
                                                        {attr::kCausal, node.attributes[attr::kCausal]},
                                                        {attr::kDiagonal, node.attributes[attr::kDiagonal]},
                                                        {attr::kTf32, node.attributes[attr::kTf32]}});
  const TensorType &q = r.type(node.inputs[0]), &k = r.type(node.inputs[1]), &v = r.type(node.inputs[2]);
  const TensorType& out = r.type(node.results[0]);
  const TensorType rows{.dtype = DType::kF32, .shape = Shape(q.shape.dims().first(3))};
  if (!target.fusion->runs(target, Op::kAttention, with_sums, {q, k, v}, out) ||
      !target.fusion->runs(target, Op::kAttentionBackward, of_gradient, {q, k, v, out, rows, rows}, q))
    return false;
  r.replace(node.results[0], r.emit_like(node, node.inputs, with_sums));
  return true;
}

/// Casts a weight to 16 bits before it is transposed, as GPT-2's are: the weight itself then has a copy, and is
/// transposed in 16 bits.
bool cast_before_transpose(Rewriter& r, const Node& node) {
  if (node.op != Op::kCast || size_of(r.type(node.results[0]).dtype) != 2 || !r.is_weight(node.inputs[0])) return false;
  const Node* const transpose = r.weight_producer(node.inputs[0]);
  if (transpose == nullptr || transpose->op != Op::kTranspose ||
      r.graph().value(transpose->inputs[0]).kind != ValueKind::kParam)
    return false;
  const ValueId cast = r.emit_like(node, {transpose->inputs[0]}, node.attributes);
  r.replace(node.results[0], r.emit_like(*transpose, {cast}, transpose->attributes));
  return true;
}

/// Lets a cross-entropy, which computes in f32 in any case, read logits as they are stored.
bool read_stored_logits(Rewriter& r, const Node& node) {
  if (node.op != Op::kCrossEntropy) return false;
  const Node* const rows = r.match(node.inputs[0], Op::kReshape);
  const Node* const cast = r.match(rows != nullptr ? rows->inputs[0] : node.inputs[0], Op::kCast);
  if (cast == nullptr || !is_float(r.type(cast->inputs[0]).dtype)) return false;
  const ValueId stored = rows != nullptr ? r.emit_like(*rows, {cast->inputs[0]}, rows->attributes) : cast->inputs[0];
  const std::vector<ValueId> made = r.emit_all(node.op, {stored, node.inputs[1]}, {}, node.path);
  const std::vector<ValueId> before = node.results;
  for (std::size_t i = 0; i < made.size(); ++i) r.replace(before[i], made[i]);
  return true;
}

}  // namespace

void prepare_loss(Graph& loss, Precision precision, const Target& target) {
  Target without_rules = target, with_rules = target;
  without_rules.fusion = nullptr;  // fused ops without a kernel keep their rules
  with_rules.fusion = &kernel_rules();
  const std::string_view name = precision == Precision::kBF16 ? "bf16" : "fp16";
  const bool has_16_bits = precision != Precision::kF32;
  const OptimizeReport report =
      optimize(loss, SwitchSet::parse(has_16_bits ? fmt::format("flash,{}", name) : "flash"), without_rules);
  for (const Declined& declined : report.declined)
    if (declined.switch_name == name)
      fail("precision {}: {}", precision == Precision::kBF16 ? "bf16" : "f16", declined.reason);
  rewrite_each(loss, [&](Rewriter& r, const Node& node) {
    return keep_logsumexp(r, node, with_rules) || cast_before_transpose(r, node) || read_stored_logits(r, node);
  });
}

TrainingStep build_training_step(const Graph& loss, const StepRecipe& recipe) {
  TrainingStep step;
  Builder b(step.graph);
  LossParts parts(b, loss, recipe, /*has_copies=*/true);
  step.weights = parts.weights();
  if (step.weights.empty()) fail("all weights are frozen: nothing is left to train");
  const ValueId scale = recipe.loss_scaling ? add_loss_scale(step.graph) : kNoValue;
  const LossAndGradients made = recipe.micro_batches == 1 ? with_gradients(b, step.weights, parts.append(), scale)
                                                          : append_sums(b, parts, recipe.micro_batches, scale);
  const Updated updated = append_adamw(b, recipe.adamw, step.weights, made.gradients, scale);
  if (recipe.loss_scaling) append_loss_scaling(b, *recipe.loss_scaling, scale, updated.runs);
  step.graph.add_output("loss", made.loss);
  step.graph.add_output("norm", updated.norm);
  step.graph.add_output("rate", updated.rate);
  // As a value of its own: an output that names a state is the state's final value.
  if (scale != kNoValue) step.graph.add_output(std::string(kLossScaleState), b.mul_scalar(scale, 1));
  read_copies(step.graph, step.weights);
  rewrite_each(step.graph, multiply_transposed);
  return step;
}

Graph build_validation(const Graph& loss, const StepRecipe& recipe) {
  Graph graph("validation");
  Builder b(graph);
  StepRecipe one = recipe;
  one.micro_batches = 1;
  LossParts parts(b, loss, one, /*has_copies=*/false);
  graph.add_output("loss", parts.append());
  return graph;
}

}  // namespace headroom
