#pragma once

#include <cstdint>
#include <optional>

#include "base/shape.hpp"
#include "kernels/kernel.hpp"

namespace headroom {

/// Whether strides satisfy a kernel's rule for a tensor of `shape`; strides of axes of extent 1 do not matter.
[[nodiscard]] bool satisfies(StrideRule rule, const Shape& shape, const Shape& strides);

/// Strides that let the elements of a tensor (`shape`, `strides`) be read as `target` without moving any, or nothing
/// where that needs a copy.
[[nodiscard]] std::optional<Shape> reshape_strides(const Shape& shape, const Shape& strides, const Shape& target);

/// Strides as they are, except that axes of extent 1 get the stride a dense tensor would have there, so that dense
/// means equal strides.
[[nodiscard]] Shape normalized_strides(const Shape& shape, const Shape& strides);

}  // namespace headroom
