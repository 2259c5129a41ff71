#pragma once

#include <algorithm>
#include <array>
#include <cstring>

#include "kernels/core/row_loop.hpp"
#include "kernels/core/written_kernel.hpp"

/// Parts of the kernels of gather and scatter_add that all devices share.
namespace headroom {

/// Row numbers as they are stored, i32 or i64.
struct RowIds {
  bool is_wide = false;
  std::int64_t rows = 0;  ///< of the table

  /// The row that element `index` (in host memory) names, or the nearest row that exists.
  [[nodiscard]] std::int64_t row(const void* ids, std::int64_t index) const {
    const auto at = [&]<typename Id>(Id id) {
      std::memcpy(&id, static_cast<const std::byte*>(ids) + index * static_cast<std::int64_t>(sizeof id), sizeof id);
      return std::clamp<std::int64_t>(id, 0, rows - 1);
    };
    return is_wide ? at(std::int64_t{}) : at(std::int32_t{});
  }
};
[[nodiscard]] inline RowIds row_ids(const Operand& table, const Operand& ids) {
  return {ids.type.dtype == DType::kI64, table.type.shape[0]};
}

/// How gather walks the result: the strides of table, ids and result along its axes, in elements. Those of the
/// table are within a row.
struct GatheredRows {
  RowIds ids;
  std::array<Shape, 3> strides;
  std::int64_t row_stride = 0;
};
[[nodiscard]] inline GatheredRows gathered_rows(const KernelBinding& binding) {
  const Operand &table = binding.inputs[0], &ids = binding.inputs[1], &y = binding.outputs[0];
  GatheredRows rows{row_ids(table, ids), {y.strides, y.strides, y.strides}, table.strides[0]};
  const int id_axes = ids.type.shape.rank();
  for (int axis = 0; axis < y.type.shape.rank(); ++axis) {
    const bool is_id = axis < id_axes;
    rows.strides[0].set(axis, is_id ? 0 : table.strides[axis - id_axes + 1]);
    rows.strides[1].set(axis, is_id ? ids.strides[axis] : 0);
  }
  return rows;
}

}  // namespace headroom
