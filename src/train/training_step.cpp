#include "train/training_step.hpp"

#include <utility>

#include "autodiff/differentiate.hpp"
#include "base/error.hpp"
#include "ir/ops/append_graph.hpp"
#include "passes/pass.hpp"

namespace headroom {
namespace {

/// A graph that a loss is appended to.
class LossParts {
 public:
  LossParts(Builder& builder, const Graph& loss, const StepRecipe& recipe)
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

}  // namespace

void apply_precision(Graph& loss, Precision precision, const Target& target) {
  if (precision == Precision::kF32) return;
  const bool is_bf16 = precision == Precision::kBF16;
  const OptimizeReport report = optimize(loss, SwitchSet::parse(is_bf16 ? "bf16" : "fp16"), target);
  for (const Declined& declined : report.declined) fail("precision {}: {}", is_bf16 ? "bf16" : "f16", declined.reason);
}

TrainingStep build_training_step(const Graph& loss, const StepRecipe& recipe) {
  TrainingStep step;
  Builder b(step.graph);
  LossParts parts(b, loss, recipe);
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
  return step;
}

Graph build_validation(const Graph& loss, const StepRecipe& recipe) {
  Graph graph("validation");
  Builder b(graph);
  StepRecipe one = recipe;
  one.micro_batches = 1;
  LossParts parts(b, loss, one);
  graph.add_output("loss", parts.append());
  return graph;
}

}  // namespace headroom
