#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "kernels/core/kernel.hpp"
#include "kernels/core/row_loop.hpp"

namespace headroom {

/// A merge_attention op and the layout of its operands, to which kernels are bound.
struct MergeProblem {
  std::int64_t parts = 0;
  std::int64_t x_step = 0, logsumexp_step = 0;  ///< from a part to the next, in elements
  /// Rows of the result: x and logsumexp of part 0, the merged logsumexp if there is one, and the result.
  RowLoop<4> rows;
  bool has_logsumexp = false;
  DType dtype = DType::kF32;
};

[[nodiscard]] inline MergeProblem merge_problem(const OpSpec& spec, std::span<const Operand> inputs,
                                                std::span<const Operand> outputs) {
  const Operand& x = inputs[position_of(Op::kMergeAttention, Role::kX)];
  const Operand& logs = inputs[position_of(Op::kMergeAttention, Role::kLogsumexp)];
  const auto axis = static_cast<int>(spec.attributes[attr::kAxis]);
  const Shape& merged = outputs[0].type.shape;
  const auto of_rows = [&](const Shape& strides, int parts) {  // along the result's axes, but for that of the parts
    Shape kept;
    for (int k = 0; k < strides.rank(); ++k)
      if (k != parts) kept.push_back(strides[k]);
    if (kept.rank() < merged.rank()) kept.push_back(0);
    return kept;
  };
  const bool has_logsumexp = outputs.size() == 2;
  Shape none = merged;
  for (int k = 0; k < none.rank(); ++k) none.set(k, 0);
  return {.parts = x.type.shape[axis],
          .x_step = x.strides[axis],
          .logsumexp_step = logs.strides[axis],
          .rows = rows_of<4>(merged, {of_rows(x.strides, axis), of_rows(logs.strides, axis),
                                      has_logsumexp ? of_rows(outputs[1].strides, -1) : none, outputs[0].strides}),
          .has_logsumexp = has_logsumexp,
          .dtype = x.type.dtype};
}

}  // namespace headroom
