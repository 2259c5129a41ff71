#include "base/shape.hpp"

#include <fmt/ranges.h>

#include <algorithm>

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

}  // namespace headroom
