#pragma once

#include <cstdint>

#include "base/error.hpp"
#include "kernels/core/kernel.hpp"

namespace headroom {

/// The iteration space of image kernels over a dense tensor: `outer` planes of rows of pixels of `inner` elements.
/// Row-major images[b, c, h, w] have b c planes of pixels of one element, channels-last ones b planes of pixels of
/// c.
struct Planes {
  std::int64_t outer = 0, height = 0, width = 0, inner = 1;
};
[[nodiscard]] inline Planes planes_of(const TensorType& type) {
  const Shape& shape = type.shape;
  HR_CHECK_EQ(shape.rank(), 4);
  if (type.layout == Layout::kChannelsLast) return {shape[0], shape[2], shape[3], shape[1]};
  return {shape[0] * shape[1], shape[2], shape[3], 1};
}

/// Two neighbours along an axis; the second has the weight `weight`.
struct Neighbours {
  std::int64_t first = 0, second = 0;
  float weight = 0;
};
/// The position of the centre of element `i` of `size` among `extent` elements, whose edge values extend outside. In
/// integers up to the last division, the only operation that rounds.
[[nodiscard]] inline Neighbours neighbours_of(std::int64_t i, std::int64_t extent, std::int64_t size) {
  const std::int64_t at = (2 * i + 1) * extent - size;  // times 2 size
  const auto next = [&](std::int64_t first) { return first + 1 < extent ? first + 1 : first; };
  if (at <= 0) return {.second = next(0)};  // without weight; an infinite first times 0 would be NaN
  const std::int64_t first = at / (2 * size);
  const auto rest = static_cast<float>(at % (2 * size));
  return {first, next(first), rest / static_cast<float>(2 * size)};
}

}  // namespace headroom
