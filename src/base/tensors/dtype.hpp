#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "base/tensors/dtype_code.hpp"

namespace headroom {

/// Bytes of one element.
[[nodiscard]] std::size_t size_of(DType dtype);
/// The name used in graphs, results and messages: "f32", "bf16".
[[nodiscard]] std::string_view name_of(DType dtype);
/// The name used in a safetensors header: "F32", "BF16".
[[nodiscard]] std::string_view safetensors_name_of(DType dtype);
[[nodiscard]] bool is_float(DType dtype);
/// The dtype called `name` ("bf16"), or nothing.
[[nodiscard]] std::optional<DType> parse_dtype(std::string_view name);
[[nodiscard]] std::optional<DType> parse_safetensors_dtype(std::string_view name);

/// One element at `data` as a double, exactly (i64 beyond 2^53 rounds).
[[nodiscard]] double load_as_double(const void* data, DType dtype);
/// Stores `value` at `data`, rounding to nearest even; f8e4m3 and integers saturate, f16, bf16 and f8e5m2 overflow to
/// infinity.
void store_from_double(void* data, DType dtype, double value);

/// bf16 is the upper half of an fp32: exact upwards, round to nearest even downwards; a NaN stays a NaN.
[[nodiscard]] float bf16_to_float(std::uint16_t bits);
[[nodiscard]] std::uint16_t float_to_bf16(float value);

}  // namespace headroom

template <>
struct fmt::formatter<headroom::DType> : fmt::formatter<std::string_view> {
  format_context::iterator format(headroom::DType dtype, format_context& context) const;
};
