#include "ir/infer.hpp"

#include <algorithm>
#include <utility>

#include "base/error.hpp"
#include "ir/op_definition.hpp"

namespace headroom {

Shape broadcast_shapes(const Shape& a, const Shape& b) {
  const int rank = std::max(a.rank(), b.rank());
  Shape result = a.rank() >= b.rank() ? a : b;
  for (int axis = 1; axis <= std::min(a.rank(), b.rank()); ++axis) {
    const std::int64_t left = a[-axis];
    const std::int64_t right = b[-axis];
    if (left != right && left != 1 && right != 1) fail("shapes {} and {} do not broadcast", a, b);
    result.set(rank - axis, left == 1 ? right : left);
  }
  return result;
}

namespace {

/// Whether the op takes images in any layout: ops that move elements use strides.
bool takes_any_layout(const OpDefinition& known) {
  return known.any_layout || known.kind == OpKind::kView || known.kind == OpKind::kCopy;
}

}  // namespace

std::vector<TensorType> infer(Op op, const Attributes& attributes, std::span<const TensorType> in) {
  const OpSchema& schema = schema_of(op);
  const std::size_t least = schema.operands.least(), most = schema.operands.most();
  const std::size_t ending = attributes.epilogue_operands();
  if (in.size() < least + ending || in.size() > most + ending)
    fail("{}: expected {} to {} operands, but was given {}", schema.name, least + ending, most + ending, in.size());
  const OpDefinition& known = definition_of(op);
  if (!takes_any_layout(known))
    for (const TensorType& operand : in)
      if (operand.layout != Layout::kRowMajor)
        fail("{}: takes row-major operands, not {} channels_last", schema.name, operand);
  return known.infer({op, attributes, in});
}

OpSpec make_spec(Op op, std::vector<TensorType> inputs, NamedAttributes attributes, std::vector<bool> is_weight) {
  OpSpec spec{.op = op,
              .attributes = Attributes(op, std::move(attributes)),
              .inputs = std::move(inputs),
              .outputs = {},
              .is_weight = std::move(is_weight)};
  spec.is_weight.resize(spec.inputs.size());
  spec.outputs = infer(op, spec.attributes, spec.inputs);
  return spec;
}

}  // namespace headroom
