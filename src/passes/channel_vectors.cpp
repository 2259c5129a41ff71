#include "passes/channel_vectors.hpp"

#include <functional>

#include "ir/op_definition.hpp"

namespace headroom {
namespace {

std::vector<TensorType> input_types(const Graph& graph, const Node& node) {
  std::vector<TensorType> types;
  for (const ValueId input : node.inputs) types.push_back(graph.type(input));
  return types;
}

/// The fraction of the FLOPs of convolutions that have it; 1 without any.
double share_of_convolutions(const Graph& graph, const std::function<bool(const Node&)>& has_it) {
  double all = 0, with = 0;
  for (const Node& node : graph.nodes()) {
    if (!is_convolution(node.op)) continue;
    const TensorType& out = graph.type(node.results[0]);
    const double flops = definition_of(node.op).flops.count(node.attributes, input_types(graph, node), {&out, 1});
    all += flops;
    if (has_it(node)) with += flops;
  }
  return all == 0 ? 1 : with / all;
}

}  // namespace

ImageForm image_form_of(const Graph& graph, const Node& convolution, const Target& target) {
  if (target.fusion == nullptr) return {};
  return target.fusion->best_images(target, convolution.op, convolution.attributes, input_types(graph, convolution),
                                    graph.type(convolution.results[0]));
}

double share_on_full_vectors(const Graph& graph, const Target& target) {
  return share_of_convolutions(graph, [&](const Node& node) {
    const std::int64_t vector = image_form_of(graph, node, target).channel_multiple;
    const auto is_full = [&](ValueId image) { return graph.type(image).shape[1] % vector == 0; };
    return is_full(node.input(Role::kX)) && is_full(node.results[0]);
  });
}

double share_faster_channels_last(const Graph& graph, const Target& target) {
  return share_of_convolutions(
      graph, [&](const Node& node) { return image_form_of(graph, node, target).layout == Layout::kChannelsLast; });
}

}  // namespace headroom
