#include "passes/channel_vectors.hpp"

#include "ir/op_definition.hpp"

namespace headroom {

std::int64_t channels_in_vector(const Node& convolution, DType dtype) {
  constexpr std::int64_t kVectorBytes = 16;
  if (dtype == DType::kF32 && !convolution.attributes[attr::kTf32]) return 1;
  return kVectorBytes / static_cast<std::int64_t>(size_of(dtype));
}

double share_on_full_vectors(const Graph& graph) {
  double all = 0, full = 0;
  for (const Node& node : graph.nodes()) {
    if (node.op != Op::kConv2d && node.op != Op::kConvTranspose2d) continue;
    std::vector<TensorType> in;
    for (const ValueId input : node.inputs) in.push_back(graph.type(input));
    const TensorType& out = graph.type(node.results[0]);
    const double flops = definition_of(node.op).flops.count(node.attributes, in, {&out, 1});
    const std::int64_t vector = channels_in_vector(node, out.dtype);
    all += flops;
    if (in[0].shape[1] % vector == 0 && out.shape[1] % vector == 0) full += flops;
  }
  return all == 0 ? 1 : full / all;
}

}  // namespace headroom
