#pragma once

#include <cstdint>
#include <string_view>

#include "base/dtype.hpp"

namespace headroom {

/// What follows a product element by element.
enum class Activation : std::uint8_t { kNone, kGeluTanh, kGelu, kSilu };
/// The activation that linear's attribute names: "none", "gelu_tanh", "gelu" or "silu".
[[nodiscard]] Activation parse_activation(std::string_view name);

/// y[r, i] = activation(x[r, i]) for `rows` rows of n, on the calling thread. x is f32 with dense rows; y is f32 or
/// bf16, rounded once, with rows `y_stride` elements apart.
void activate_rows(Activation activation, std::int64_t rows, std::int64_t n, const float* x, DType y_dtype, void* y,
                   std::int64_t y_stride);

}  // namespace headroom
