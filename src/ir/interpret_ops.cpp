#include "ir/interpret_ops.hpp"

#include "base/error.hpp"
#include "ir/builder.hpp"
#include "ir/expand.hpp"
#include "ir/infer.hpp"

namespace headroom {
namespace oracle {
namespace {

/// Runs the plain ops that a fused one stands for.
std::vector<OracleTensor> evaluate_fused(Op op, const Attributes& attributes, Operands in) {
  Graph graph(std::string(name_of(op)));
  std::vector<ValueId> inputs;
  for (const OracleTensor* operand : in)
    inputs.push_back(graph.add_input(fmt::format("{}", inputs.size()), operand->type));
  Builder builder(graph);
  const std::vector<ValueId> results = expand_node(builder, op, attributes, inputs);

  std::vector<OracleTensor> tensors(graph.value_count());
  std::vector<const OracleTensor*> values(graph.value_count(), nullptr);
  for (std::size_t i = 0; i < inputs.size(); ++i) values[index_of(inputs[i])] = in[i];
  for (const Node& node : graph.nodes()) {
    std::vector<const OracleTensor*> operands;
    for (const ValueId input : node.inputs) operands.push_back(values[index_of(input)]);
    std::vector<OracleTensor> made = evaluate(node.op, node.attributes, operands);
    for (std::size_t i = 0; i < made.size(); ++i) {
      tensors[index_of(node.results[i])] = std::move(made[i]);
      values[index_of(node.results[i])] = &tensors[index_of(node.results[i])];
    }
  }
  std::vector<OracleTensor> out;
  out.reserve(results.size());
  for (const ValueId result : results) out.push_back(*values[index_of(result)]);
  return out;
}

}  // namespace

OracleTensor make_tensor(const TensorType& type) {
  OracleTensor tensor{type, {}, {}};
  const auto numel = static_cast<std::size_t>(type.shape.numel());
  is_float(type.dtype) ? tensor.reals.resize(numel) : tensor.integers.resize(numel);
  return tensor;
}

std::vector<OracleTensor> evaluate(Op op, const Attributes& attributes, Operands in) {
  std::vector<TensorType> types;
  for (const OracleTensor* operand : in) types.push_back(operand->type);
  std::vector<OracleTensor> out;
  for (const TensorType& type : infer(op, attributes, types)) out.push_back(make_tensor(type));
  if (is_fused(op, attributes)) return evaluate_fused(op, attributes, in);

  switch (op) {
    case Op::kAdd:
    case Op::kSub:
    case Op::kMul:
      binary(op, in, out[0]);
      break;
    case Op::kAddScalar:
    case Op::kMulScalar:
      scalar(op, attributes.get_float("value"), *in[0], out[0]);
      break;
    case Op::kRelu:
    case Op::kSilu:
    case Op::kGelu:
      activate(op, attributes, *in[0], out[0]);
      break;
    case Op::kCast:
      cast(*in[0], out[0]);
      break;
    case Op::kLinear:
      linear(in, out[0]);
      break;
    case Op::kQuantize:
      quantize(*in[0], out);
      break;
    case Op::kMatmul:
      matmul(attributes, in, out[0]);
      break;
    case Op::kSoftmax:
      softmax(*in[0], out[0]);
      break;
    case Op::kLayerNorm:
      layer_norm(attributes, *in[0], out[0]);
      break;
    case Op::kRmsNorm:
      rms_norm(attributes, in, out[0]);
      break;
    case Op::kRopeTable:
      rope_table(attributes, *in[0], out);
      break;
    case Op::kRope:
      rope(in, out[0]);
      break;
    case Op::kTimestepEmbedding:
      timestep_embedding(attributes, *in[0], out[0]);
      break;
    case Op::kReshape:
      reshape(*in[0], out[0]);
      break;
    case Op::kTranspose:
      transpose(attributes, *in[0], out[0]);
      break;
    case Op::kConcat:
      concat(attributes, in, out[0]);
      break;
    case Op::kSlice:
      slice(attributes, *in[0], out[0]);
      break;
    case Op::kRow:
      row(in, out[0]);
      break;
    case Op::kConv2d:
      conv2d(attributes, in, out[0]);
      break;
    case Op::kMaxPool2d:
      max_pool2d(attributes, *in[0], out[0]);
      break;
    case Op::kMean:
      mean(*in[0], out[0]);
      break;
    case Op::kAttention:
    case Op::kScaledLinear:
    case Op::kNormModulate:
    case Op::kNormModulateQuantize:
    case Op::kGateResidual:
    case Op::kGateResidualNorm:
    case Op::kGateResidualNormQuantize:
    case Op::kQkNormRope:
      HR_CHECK(false);  // is_fused() took them
  }
  return out;
}

}  // namespace oracle

std::vector<OracleTensor> interpret_node(Op op, const Attributes& attributes, const std::vector<OracleTensor>& inputs) {
  std::vector<const OracleTensor*> operands;
  for (const OracleTensor& input : inputs) {
    const auto elements = is_float(input.type.dtype) ? input.reals.size() : input.integers.size();
    HR_CHECK_EQ(elements, static_cast<std::size_t>(input.type.shape.numel()));
    operands.push_back(&input);
  }
  return oracle::evaluate(op, attributes, operands);
}

}  // namespace headroom
