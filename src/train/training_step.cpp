#include "train/training_step.hpp"

#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "autodiff/differentiate.hpp"
#include "base/error.hpp"
#include "ir/ops/append_graph.hpp"
#include "train/causal_lm.hpp"

namespace headroom {
namespace {

/// Adds the weights of a forward graph as states.
std::vector<TrainedWeight> add_weights(Graph& graph, const Graph& forward,
                                       const std::function<bool(const std::string&, const Shape&)>& decays) {
  std::vector<TrainedWeight> weights;
  for (const ValueId param : forward.values_of(ValueKind::kParam)) {
    const auto& [kind, name, type] = forward.value(param);
    weights.push_back(
        {.name = name, .value = graph.add_state(name, type), .decays = !decays || decays(name, type.shape)});
  }
  return weights;
}

/// The loss of tokens[batch, tokens + 1], of `count` tokens in all.
ValueId append_loss(Builder& b, const Graph& forward, const std::vector<TrainedWeight>& weights, ValueId tokens,
                    std::int64_t count) {
  const std::int64_t batch = b.shape(tokens)[0], length = b.shape(tokens)[1] - 1;
  std::vector<ValueId> values(forward.value_count(), kNoValue);
  values[index_of(forward.find(ValueKind::kInput, "input_ids"))] = b.slice(tokens, 1, 0, length);
  for (const TrainedWeight& weight : weights)
    values[index_of(forward.find(ValueKind::kParam, weight.name))] = weight.value;
  const ValueId logits = append_graph(b, forward, std::move(values))[0];  // [batch, tokens, vocabulary]
  const ValueId targets = b.slice(tokens, 1, 1, length);
  return causal_lm_loss(b, b.reshape(logits, {batch * length, b.shape(logits)[2]}),
                        b.reshape(targets, {batch * length, 1}), count);
}

struct LossAndGradients {
  ValueId loss = kNoValue;
  std::vector<ValueId> gradients;
};

LossAndGradients append_gradients(Builder& b, const Graph& forward, const std::vector<TrainedWeight>& weights,
                                  ValueId tokens, std::int64_t count) {
  LossAndGradients made{.loss = append_loss(b, forward, weights, tokens, count), .gradients = {}};
  std::vector<ValueId> wrt;
  for (const TrainedWeight& weight : weights) wrt.push_back(weight.value);
  made.gradients = differentiate(b, made.loss, wrt);
  return made;
}

/// The same over all micro-batches, in a loop whose states are the sums.
LossAndGradients append_sums(Builder& b, const Graph& forward, const std::vector<TrainedWeight>& weights,
                             ValueId tokens, const StepSize& size) {
  LossAndGradients sums;
  const auto loop = b.loop(size.micro_batches, "micro_batch");
  const LossAndGradients part =
      append_gradients(b, forward, weights, b.row(tokens, loop.counter()), size.total_tokens());
  const ValueId is_first = b.equal(loop.counter(), b.constant({0}, {}, DType::kI32));
  const auto add_up = [&](const std::string& name, ValueId value) {
    const ValueId sum = b.graph().add_state(name, b.graph().type(value));
    const ValueId next = b.where(is_first, value, b.add(sum, value));
    b.set_next(sum, next);
    return loop.yield(next);
  };
  sums.loss = add_up("loss_sum", part.loss);
  for (std::size_t i = 0; i < weights.size(); ++i)
    sums.gradients.push_back(add_up(weights[i].name + ".grad", part.gradients[i]));
  return sums;
}

}  // namespace

Graph LanguageModel::forward(std::int64_t batch, std::int64_t tokens) const {
  const ComponentPass& pass = kind->passes.front();
  const ParamSource in_f32{.dtype = [](std::string_view) { return DType::kF32; }};
  if (pass.inputs != std::vector<std::string_view>{"input_ids"}) fail("{} is no language model", kind->name);
  Graph graph = pass.build(*config, {{"input_ids", {batch, tokens}}}, in_f32);
  if (graph.outputs().size() != 1 || graph.outputs()[0].name != "logits") fail("{} is no language model", kind->name);
  return graph;
}

TrainingStep build_training_step(const LanguageModel& model, const StepSize& size, const AdamW& adamw,
                                 const std::function<bool(const std::string&, const Shape&)>& decays) {
  TrainingStep step;
  const Graph forward = model.forward(size.batch, size.tokens);
  Builder b(step.graph);
  step.weights = add_weights(step.graph, forward, decays);
  const ValueId tokens = step.graph.add_input(
      std::string(kTokensInput),
      TensorType{.dtype = DType::kI32, .shape = {size.micro_batches, size.batch, size.tokens + 1}});
  const LossAndGradients made =
      size.micro_batches == 1 ? append_gradients(b, forward, step.weights,
                                                 b.reshape(tokens, {size.batch, size.tokens + 1}), size.total_tokens())
                              : append_sums(b, forward, step.weights, tokens, size);
  const Updated updated = append_adamw(b, adamw, step.weights, made.gradients);
  step.graph.add_output("loss", made.loss);
  step.graph.add_output("norm", updated.norm);
  step.graph.add_output("rate", updated.rate);
  return step;
}

Graph build_loss(const LanguageModel& model, const StepSize& size) {
  Graph graph("loss");
  const Graph forward = model.forward(size.batch, size.tokens);
  Builder b(graph);
  const std::vector<TrainedWeight> weights = add_weights(graph, forward, {});
  const ValueId tokens = graph.add_input(std::string(kTokensInput),
                                         TensorType{.dtype = DType::kI32, .shape = {size.batch, size.tokens + 1}});
  graph.add_output("loss", append_loss(b, forward, weights, tokens, size.batch * size.tokens));
  return graph;
}

}  // namespace headroom
