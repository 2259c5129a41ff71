#include "kernels/movement.hpp"

namespace headroom {

std::vector<MovedPart> moved_parts(const KernelBinding& binding) {
  const Operand &x = binding.inputs[0], &y = binding.outputs[0];
  const Attributes& attributes = binding.spec.attributes;
  MovedPart part{.extents = y.type.shape, .from_strides = x.strides, .to_strides = y.strides};
  switch (binding.spec.op) {
    case Op::kReshape:
      part.from_strides = row_major_strides(y.type.shape);
      return {part};
    case Op::kTranspose: {
      int axis = 0;
      for (const std::int64_t source : attributes.get_ints("perm"))
        part.from_strides.set(axis++, x.strides[static_cast<int>(source)]);
      return {part};
    }
    case Op::kSlice:
      part.from_elements = attributes.get_int("start") * x.strides[static_cast<int>(attributes.get_int("axis"))];
      return {part};
    case Op::kRow:
      part.from_strides = Shape(x.strides.dims().subspan(1));  // table[n, ...]
      return {part};
    default: {
      HR_CHECK(binding.spec.op == Op::kConcat);
      const int axis = static_cast<int>(attributes.get_int("axis"));
      std::vector<MovedPart> parts;
      for (const Operand& input : binding.inputs) {
        parts.push_back({input.type.shape, input.strides, y.strides, 0, part.to_elements});
        part.to_elements += input.type.shape[axis] * y.strides[axis];
      }
      return parts;
    }
  }
}

KernelTraits movement_traits(std::string_view name, Op op, KernelPlan (*plan)(const KernelBinding&)) {
  const bool is_reshape = op == Op::kReshape;
  return {.name = name,
          .op = op,
          .supports = is_reshape ? supports_row_major : supports_all_types,
          .strides = is_reshape ? StrideRule::kDense : StrideRule::kAny,
          .plan = plan};
}

}  // namespace headroom
