#pragma once

#include <algorithm>

#include "kernels/core/cpu_kernel.hpp"
#include "kernels/elementwise/elementwise_scalars.hpp"

namespace headroom {

/// The bound parameters of an elementwise kernel. Operands of `loop`: a, b, c, y.
struct ElementwiseRows {
  Op op;
  DType dtype;      ///< of y and all operands
  DType side;       ///< of b of three operands: f32 or `dtype`
  Scalars scalars;  ///< in place of b and c, if the op has one operand
  RowLoop<4> loop;
};

[[nodiscard]] inline ElementwiseRows elementwise_rows_of(const KernelBinding& binding) {
  const std::span<const Operand> in = binding.inputs;
  const Operand& y = binding.outputs[0];
  return {.op = binding.spec.op,
          .dtype = y.type.dtype,
          .side = in[std::min<std::size_t>(1, in.size() - 1)].type.dtype,
          .scalars = scalars_of(binding.spec),
          .loop = longest_rows<4>(y.type.shape, elementwise_strides(in, y))};
}

}  // namespace headroom
