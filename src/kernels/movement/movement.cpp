#include "kernels/movement/movement.hpp"

#include "kernels/core/row_loop.hpp"

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
      for (const std::int64_t source : attributes[attr::kPerm])
        part.from_strides.set(axis++, x.strides[static_cast<int>(source)]);
      return {part};
    }
    case Op::kSlice:
      part.from_elements = attributes[attr::kStart] * x.strides[static_cast<int>(attributes[attr::kAxis])];
      return {part};
    case Op::kRow:
      part.from_strides = Shape(x.strides.dims().subspan(1));  // table[n, ...]
      return {part};
    case Op::kBroadcast:
      part.from_strides = broadcast_strides(x, y.type.shape);
      return {part};
    case Op::kPad:
      part.extents = x.type.shape;
      for (int axis = 0; axis < x.type.shape.rank(); ++axis)
        part.to_elements += attributes[attr::kBefore][static_cast<std::size_t>(axis)] * y.strides[axis];
      return {part};
    default: {
      HR_CHECK(binding.spec.op == Op::kConcat);
      const int axis = static_cast<int>(attributes[attr::kAxis]);
      std::vector<MovedPart> parts;
      for (const Operand& input : binding.inputs) {
        parts.push_back({input.type.shape, input.strides, y.strides, 0, part.to_elements});
        part.to_elements += input.type.shape[axis] * y.strides[axis];
      }
      return parts;
    }
  }
}

/// For each axis, the margins before and after x, within the extent of x along the preceding axes.
std::vector<FilledPart> margins_of(const KernelBinding& binding) {
  const Operand &x = binding.inputs[0], &y = binding.outputs[0];
  std::vector<FilledPart> parts;
  FilledPart rest{.extents = y.type.shape, .to_strides = y.strides};
  for (int axis = 0; axis < y.type.shape.rank(); ++axis) {
    const std::int64_t before = binding.spec.attributes[attr::kBefore][static_cast<std::size_t>(axis)];
    const std::int64_t inside = x.type.shape[axis], stride = y.strides[axis];
    const auto fill = [&](std::int64_t from, std::int64_t count) {
      if (count == 0) return;
      FilledPart& part = parts.emplace_back(rest);
      part.extents.set(axis, count);
      part.to_elements += from * stride;
    };
    fill(0, before);
    fill(before + inside, y.type.shape[axis] - before - inside);
    rest.extents.set(axis, inside);
    rest.to_elements += before * stride;
  }
  return parts;
}

std::uint64_t bits_of(double value, DType dtype) {
  std::uint64_t bits = 0;
  store_from_double(&bits, dtype, value);
  return bits;
}

std::vector<std::byte> constant_bytes(const Attributes& attributes) {
  const DType dtype = attributes[attr::kDType];
  const std::vector<double>& values = attributes[attr::kValues];
  std::vector<std::byte> bytes(values.size() * size_of(dtype));
  for (std::size_t i = 0; i < values.size(); ++i)
    store_from_double(bytes.data() + i * size_of(dtype), dtype, values[i]);
  return bytes;
}

namespace {

/// Supports a result that is channels-last and has the same extents: a pure change of layout.
Support supports_reshape(const OpSpec& spec) {
  if (spec.outputs[0].layout == Layout::kRowMajor || spec.outputs[0].shape == spec.inputs[0].shape) return std::nullopt;
  return Rejection{"makes a channels-last result of an operand of its shape alone"};
}

}  // namespace

KernelTraits movement_traits(std::string_view name, Op op, KernelPlan (*plan)(const KernelBinding&)) {
  const bool is_dense = op == Op::kReshape || op == Op::kConstant;
  return {.name = name,
          .op = op,
          .supports = op == Op::kReshape ? supports_reshape : supports_all_types,
          .strides = StrideRule::kAny,
          .output_strides = is_dense ? std::optional<StrideRule>(StrideRule::kDense) : std::nullopt,
          .plan = plan};
}

}  // namespace headroom
