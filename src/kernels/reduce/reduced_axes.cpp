#include "kernels/reduce/reduced_axes.hpp"

#include <algorithm>

namespace headroom {

ReducedAxes split_axes(const std::vector<std::int64_t>& axes, const Operand& x, const Operand& y) {
  ReducedAxes split;
  int result_axis = 0;
  for (int axis = 0; axis < x.type.shape.rank(); ++axis) {
    const std::int64_t extent = x.type.shape[axis];
    if (std::ranges::find(axes, axis) != axes.end()) {
      split.reduced.push_back(extent);
      split.reduced_from.push_back(x.strides[axis]);
      continue;
    }
    const std::int64_t to = y.strides[result_axis++];
    if (x.strides[axis] == 1 && extent > 1) {
      split.columns = extent;
      split.column_stride = to;
      continue;
    }
    split.kept.push_back(extent);
    split.kept_from.push_back(x.strides[axis]);
    split.kept_to.push_back(to);
  }
  for (Shape* shape : {&split.kept, &split.kept_from, &split.kept_to}) shape->push_back(1);
  return split;
}

RowLoop<2> places_without(int axis, const Operand& x, const Operand& y) {
  Shape kept, from, to;
  for (int k = 0; k < x.type.shape.rank(); ++k) {
    if (k == axis) continue;
    to.push_back(y.strides[kept.rank()]);
    kept.push_back(x.type.shape[k]);
    from.push_back(x.strides[k]);
  }
  for (Shape* shape : {&kept, &from, &to}) shape->push_back(1);
  return rows_of<2>(kept, {from, to});
}

}  // namespace headroom
