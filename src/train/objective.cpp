#include "train/objective.hpp"

#include <utility>

#include "base/error.hpp"
#include "ir/ops/append_graph.hpp"
#include "train/causal_lm.hpp"
#include "train/classification.hpp"
#include "train/flow_matching.hpp"
#include "train/training_config.hpp"

namespace headroom {

std::unique_ptr<Objective> make_objective(const TrainingConfig& config) {
  switch (config.objective) {
    case ObjectiveKind::kCausalLm:
      return std::make_unique<CausalLm>(config);
    case ObjectiveKind::kFlowMatching:
      return std::make_unique<FlowMatching>(config);
    case ObjectiveKind::kClassification:
      return std::make_unique<Classification>(config);
  }
  HR_CHECK(false);
}

std::vector<ValueId> append_network(Builder& builder, const Graph& network,
                                    const std::map<std::string_view, ValueId>& inputs) {
  std::vector<ValueId> values(network.value_count(), kNoValue);
  for (const ValueId input : network.values_of(ValueKind::kInput))
    values[index_of(input)] = inputs.at(network.value(input).name);
  for (const ValueId param : network.values_of(ValueKind::kParam)) {
    const auto& [kind, name, type] = network.value(param);
    values[index_of(param)] = builder.graph().add_param(name, type);
  }
  for (const std::string& block : network.blocks()) builder.graph().add_block(block);
  return append_graph(builder, network, std::move(values));
}

}  // namespace headroom
