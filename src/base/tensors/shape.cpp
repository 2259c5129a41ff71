#include "base/tensors/shape.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <vector>

#include "base/error.hpp"

namespace headroom {

Shape::Shape(std::initializer_list<std::int64_t> dims) : Shape(std::span(dims.begin(), dims.size())) {}

Shape::Shape(std::span<const std::int64_t> dims) : rank_(static_cast<int>(dims.size())) {
  HR_CHECK_LE(dims.size(), static_cast<std::size_t>(kMaxRank));
  std::copy(dims.begin(), dims.end(), dims_.begin());
}

void Shape::push_back(std::int64_t extent) {
  HR_CHECK_LT(rank_, kMaxRank);
  dims_[static_cast<std::size_t>(rank_++)] = extent;
}

std::int64_t Shape::numel() const noexcept {
  std::int64_t product = 1;
  for (const std::int64_t extent : dims()) product *= extent;
  return product;
}

bool operator==(const Shape& a, const Shape& b) noexcept { return std::ranges::equal(a.dims(), b.dims()); }

std::string Shape::to_string() const { return fmt::format("[{}]", fmt::join(dims(), ", ")); }

std::size_t Shape::resolve(int axis) const {
  const int resolved = axis < 0 ? axis + rank_ : axis;
  HR_CHECK(resolved >= 0 && resolved < rank_);
  return static_cast<std::size_t>(resolved);
}

Shape row_major_strides(const Shape& shape) {
  Shape strides = shape;
  std::int64_t stride = 1;
  for (int axis = shape.rank() - 1; axis >= 0; --axis) {
    strides.set(axis, stride);
    stride *= shape[axis];
  }
  return strides;
}

std::optional<Shape> reshape_strides(const Shape& shape, const Shape& strides, const Shape& target) {
  // Merges adjacent axes with regular strides into runs, then splits the runs into the target's axes, innermost
  // first.
  struct Run {
    std::int64_t extent, stride;
  };
  std::vector<Run> runs;  // innermost first
  for (int axis = shape.rank() - 1; axis >= 0; --axis) {
    if (shape[axis] == 1) continue;
    if (!runs.empty() && strides[axis] == runs.back().stride * runs.back().extent)
      runs.back().extent *= shape[axis];
    else
      runs.push_back({shape[axis], strides[axis]});
  }
  Shape result = target;
  std::size_t run = 0;
  std::int64_t used = 1;  // elements of the current run that inner target axes take
  std::int64_t dense = 1;
  for (int axis = target.rank() - 1; axis >= 0; --axis) {
    if (target[axis] == 1) {
      result.set(axis, dense);
      continue;
    }
    if (run < runs.size() && used == runs[run].extent) {
      ++run;
      used = 1;
    }
    if (run == runs.size() || runs[run].extent % (used * target[axis]) != 0) return std::nullopt;
    result.set(axis, runs[run].stride * used);
    used *= target[axis];
    dense = result[axis] * target[axis];
  }
  return result;
}

}  // namespace headroom

fmt::format_context::iterator fmt::formatter<headroom::Shape>::format(const headroom::Shape& shape,
                                                                      format_context& context) const {
  return formatter<std::string_view>::format(shape.to_string(), context);
}
