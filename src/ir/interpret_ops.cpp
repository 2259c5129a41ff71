#include "ir/interpret_ops.hpp"

#include "base/error.hpp"
#include "ir/builder.hpp"
#include "ir/expand.hpp"
#include "ir/infer.hpp"
#include "ir/op_definition.hpp"

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

  definition_of(op).evaluate(attributes, in, out);
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
