#include "kernels/movement.hpp"

namespace headroom {

std::vector<MovedPart> moved_parts(const KernelBinding& binding) {
  const Operand &x = binding.inputs[0], &y = binding.outputs[0];
  const Attributes& attributes = binding.spec.attributes;
  MovedPart part{.extents = y.type.shape, .from_strides = x.strides, .to_strides = y.strides};
  switch (binding.spec.op) {
    case Op::kReshape: {
      const std::optional<Shape> to = reshape_strides(y.type.shape, y.strides, x.type.shape);
      HR_CHECK(to);  // of a dense result there is
      return {{x.type.shape, x.strides, *to}};
    }
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

namespace {

/// Where the result is channels-last, of the same extents: a change of layout alone.
Support supports_reshape(const OpSpec& spec) {
  if (spec.outputs[0].layout == Layout::kRowMajor || spec.outputs[0].shape == spec.inputs[0].shape) return std::nullopt;
  return Rejection{"makes a channels-last result of an operand of its shape alone"};
}

}  // namespace

KernelTraits movement_traits(std::string_view name, Op op, KernelPlan (*plan)(const KernelBinding&)) {
  const bool is_reshape = op == Op::kReshape;
  return {.name = name,
          .op = op,
          .supports = is_reshape ? supports_reshape : supports_all_types,
          .strides = StrideRule::kAny,
          .output_strides = is_reshape ? std::optional<StrideRule>(StrideRule::kDense) : std::nullopt,
          .plan = plan};
}

}  // namespace headroom
