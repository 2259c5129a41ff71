#include "ir/samples.hpp"

#include <algorithm>

namespace headroom {
namespace {

/// How an op's operands relate to the samples of its results.
enum class Samples : std::uint8_t {
  kFirst,      ///< operand 0 by sample, the others whole
  kFirstTwo,   ///< operands 0 and 1
  kEvery,      ///< every operand, but for those of one sample, which serves all
  kBroadcast,  ///< every operand of the results' rank, but for those of one sample
  kMixed,
};

Samples samples_of(const Graph& graph, const Node& node) {
  const auto rank_of = [&](std::size_t k) { return graph.type(node.inputs[k]).shape.rank(); };
  switch (node.op) {
    case Op::kAdd:
    case Op::kSub:
    case Op::kMul:
      return Samples::kBroadcast;
    case Op::kAddScalar:
    case Op::kMulScalar:
    case Op::kRelu:
    case Op::kSilu:
    case Op::kGelu:
    case Op::kCast:
    case Op::kTimestepEmbedding:
      return Samples::kFirst;
    case Op::kLinear:
    case Op::kQuantize:
    case Op::kSoftmax:
    case Op::kLayerNorm:
    case Op::kRmsNorm:
      return rank_of(0) >= 2 ? Samples::kFirst : Samples::kMixed;
    case Op::kRope:
      return rank_of(0) >= 3 ? Samples::kFirst : Samples::kMixed;
    case Op::kConv2d:
    case Op::kMaxPool2d:
    case Op::kQkNormRope:
      return Samples::kFirst;
    case Op::kScaledLinear:
      return rank_of(0) >= 2 ? Samples::kFirstTwo : Samples::kMixed;
    case Op::kMatmul:
      return rank_of(0) >= 3 && rank_of(0) == rank_of(1) ? Samples::kEvery : Samples::kMixed;
    case Op::kAttention:
    case Op::kNormModulate:
    case Op::kNormModulateQuantize:
    case Op::kGateResidual:
    case Op::kGateResidualNorm:
    case Op::kGateResidualNormQuantize:
      return Samples::kEvery;
    case Op::kTranspose:
      return node.attributes.get_ints("perm")[0] == 0 ? Samples::kFirst : Samples::kMixed;
    case Op::kSlice:
    case Op::kMean:
      return node.attributes.get_int("axis") > 0 ? Samples::kFirst : Samples::kMixed;
    case Op::kConcat:
      return node.attributes.get_int("axis") > 0 ? Samples::kEvery : Samples::kMixed;
    case Op::kReshape:
    case Op::kRow:
    case Op::kRopeTable:
      return Samples::kMixed;
  }
  return Samples::kMixed;
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
