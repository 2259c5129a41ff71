#include "kernels/rope/rope_positions.hpp"

namespace headroom {

RopePositions rope_positions(const KernelBinding& binding) {
  const std::span<const Operand> in = binding.inputs;
  const Operand& y = binding.outputs[0];  // [..., heads, s, d]
  Shape extents = y.type.shape;
  Shape x = in[0].strides;
  if (binding.spec.op == Op::kQkNormRope) x = {x[0], extents[-1], x[1], 1};  // of [b, s, heads*d], by y's axes
  const auto table = [&](const Operand& of) {                                // [s, d/2]
    Shape strides = broadcast_strides(Operand{}, extents);
    strides.set(-2, of.strides[0]);
    strides.set(-1, 1);
    return strides;
  };
  const Shape cos = table(in[in.size() - 2]), sin = table(in[in.size() - 1]);
  RopePositions positions;
  if (extents.rank() > 2) {
    positions = {.heads = extents[-3], .x_head = x[-3], .y_head = y.strides[-3], .loop = {}};
    extents.set(-3, 1);
  }
  positions.loop = rows_of<4>(extents, {x, cos, sin, y.strides});
  return positions;
}

}  // namespace headroom
