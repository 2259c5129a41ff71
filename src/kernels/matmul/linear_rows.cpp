#include "kernels/matmul/linear_rows.hpp"

#include <algorithm>
#include <utility>

namespace headroom {

RowPlan plan_rows(const Operand& x, const Operand& y, std::int64_t enough) {
  const Shape& shape = x.type.shape;
  std::vector<RowAxis> axes;  // innermost first
  for (int axis = shape.rank() - 2; axis >= 0; --axis) {
    const RowAxis next{shape[axis], x.strides[axis], y.strides[axis]};
    if (next.extent == 1) continue;
    const bool merges = !axes.empty() && next.x_stride == axes.back().x_stride * axes.back().extent &&
                        next.y_stride == axes.back().y_stride * axes.back().extent;
    if (merges)
      axes.back().extent *= next.extent;
    else
      axes.push_back(next);
  }
  if (axes.empty()) axes.push_back({1, shape[-1], y.type.shape[-1]});
  const auto chosen =
      axes.front().extent >= enough ? axes.begin() : std::ranges::max_element(axes, {}, &RowAxis::extent);
  RowPlan plan{.rows = *chosen, .loops = {}};
  axes.erase(chosen);
  plan.loops = std::move(axes);
  return plan;
}

std::int64_t RowPlan::count() const {
  std::int64_t gemms = 1;
  for (const RowAxis& loop : loops) gemms *= loop.extent;
  return gemms;
}

RowPlan::Offsets RowPlan::offsets(std::int64_t gemm) const {
  Offsets offsets{0, 0};
  for (const RowAxis& loop : loops) {
    offsets.x += gemm % loop.extent * loop.x_stride;
    offsets.y += gemm % loop.extent * loop.y_stride;
    gemm /= loop.extent;
  }
  return offsets;
}

}  // namespace headroom
