#include "ir/samples.hpp"

#include <algorithm>

#include "ir/op_definition.hpp"

namespace headroom {
namespace {

Samples samples_of(const Graph& graph, const Node& node) {
  const OpDefinition& known = definition_of(node.op);
  const bool has_outer_axis = known.inner_axes <= 0 || graph.type(node.inputs[0]).shape.rank() > known.inner_axes;
  const bool holds = has_outer_axis && (known.keeps_samples == nullptr || known.keeps_samples(node.attributes));
  return holds ? known.samples : Samples::kMixed;
}

}  // namespace

std::optional<std::vector<bool>> operands_by_sample(const Graph& graph, const Node& node, std::int64_t samples) {
  const auto has_samples = [&](ValueId v) {
    const Shape& shape = graph.type(v).shape;
    return shape.rank() > 0 && shape[0] == samples;
  };
  const Samples kind = samples_of(graph, node);
  if (kind == Samples::kMixed || !std::ranges::all_of(node.results, has_samples)) return std::nullopt;

  std::vector<bool> by_sample(node.inputs.size(), false);
  for (std::size_t k = 0; k < node.inputs.size(); ++k) {
    const Shape& shape = graph.type(node.inputs[k]).shape;
    if (kind == Samples::kFirst || kind == Samples::kFirstTwo) {
      by_sample[k] = k < (kind == Samples::kFirst ? 1U : 2U);
    } else {
      const bool aligned = kind == Samples::kEvery || shape.rank() == graph.type(node.results[0]).shape.rank();
      by_sample[k] = aligned && shape.rank() > 0 && shape[0] != 1;
    }
    if (by_sample[k] && !has_samples(node.inputs[k])) return std::nullopt;
  }
  return by_sample;
}

}  // namespace headroom
