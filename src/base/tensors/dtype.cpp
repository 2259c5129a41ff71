#include "base/tensors/dtype.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/error.hpp"

namespace headroom {
namespace {

struct Info {
  DType dtype;
  std::string_view name;
  std::size_t size;
  bool is_float;
  std::string_view safetensors_name;
};

constexpr std::array kInfos = {
#define HR_DTYPE(enumerator, name, size, is_float, safetensors_name) \
  Info{DType::enumerator, name, size, is_float, safetensors_name},
#include "base/tensors/dtypes.def"
#undef HR_DTYPE
};

const Info& info_of(DType dtype) { return kInfos[static_cast<std::size_t>(dtype)]; }

std::optional<DType> find(std::string_view Info::*field, std::string_view name) {
  const auto found = std::ranges::find(kInfos, name, field);
  return found == kInfos.end() ? std::nullopt : std::optional(found->dtype);
}

/// A binary floating-point format narrower than fp32. `kFiniteOnly` formats (OCP f8e4m3) have no infinity: the all-ones
/// exponent holds numbers, with only the all-ones mantissa a NaN, and overflow saturates.
struct SmallFloat {
  int mantissa_bits;
  int bias;
  int max_exponent;  // of the largest finite number
  bool finite_only;
  int width;

  [[nodiscard]] double largest() const {
    const double all_ones = 2.0 - std::ldexp(1.0, -mantissa_bits);
    const double mantissa = finite_only ? all_ones - std::ldexp(1.0, -mantissa_bits) : all_ones;
    return std::ldexp(mantissa, max_exponent);
  }

  [[nodiscard]] std::uint32_t encode(double value) const {
    const std::uint32_t sign = std::signbit(value) ? 1U << (width - 1) : 0U;
    const std::uint32_t exponent_ones = (1U << (width - 1 - mantissa_bits)) - 1U;
    if (std::isnan(value)) return sign | (exponent_ones << mantissa_bits) | ((1U << mantissa_bits) - 1U);
    const std::uint32_t infinity = exponent_ones << mantissa_bits;
    double magnitude = std::fabs(value);
    int exponent = 0;
    if (magnitude != 0 && std::isfinite(magnitude)) exponent = std::ilogb(magnitude);
    exponent = std::max(exponent, 1 - bias);  // subnormals share the smallest exponent
    const double unit = std::ldexp(1.0, exponent - mantissa_bits);
    // nearbyint rounds to even in the default mode; the quotient is exact because unit is a power of two.
    if (std::isfinite(magnitude)) magnitude = std::nearbyint(magnitude / unit) * unit;
    if (magnitude > largest()) return finite_only ? sign | encode(largest()) : sign | infinity;
    if (magnitude == 0) return sign;
    exponent = std::max(std::ilogb(magnitude), 1 - bias);
    const auto mantissa = static_cast<std::uint32_t>(std::ldexp(magnitude, mantissa_bits - exponent));
    const auto field = static_cast<std::uint32_t>(exponent + bias - 1);  // the hidden bit adds one to it
    return sign | ((field << mantissa_bits) + mantissa);
  }

  [[nodiscard]] double decode(std::uint32_t bits) const {
    const double sign = (bits >> (width - 1)) != 0 ? -1.0 : 1.0;
    const std::uint32_t exponent_ones = (1U << (width - 1 - mantissa_bits)) - 1U;
    const std::uint32_t mantissa = bits & ((1U << mantissa_bits) - 1U);
    const std::uint32_t field = (bits >> mantissa_bits) & exponent_ones;
    if (field == exponent_ones) {
      const bool nan = finite_only ? mantissa == (1U << mantissa_bits) - 1U : mantissa != 0;
      if (nan) return std::numeric_limits<double>::quiet_NaN();
      if (!finite_only) return sign * std::numeric_limits<double>::infinity();
    }
    if (field == 0) return sign * std::ldexp(mantissa, 1 - bias - mantissa_bits);
    return sign * std::ldexp(mantissa + (1U << mantissa_bits), static_cast<int>(field) - bias - mantissa_bits);
  }
};

constexpr SmallFloat kHalf{.mantissa_bits = 10, .bias = 15, .max_exponent = 15, .finite_only = false, .width = 16};
constexpr SmallFloat kBrain{.mantissa_bits = 7, .bias = 127, .max_exponent = 127, .finite_only = false, .width = 16};
constexpr SmallFloat kE4M3{.mantissa_bits = 3, .bias = 7, .max_exponent = 8, .finite_only = true, .width = 8};
constexpr SmallFloat kE5M2{.mantissa_bits = 2, .bias = 15, .max_exponent = 15, .finite_only = false, .width = 8};

template <typename T>
double read(const void* data) {
  T value;
  std::memcpy(&value, data, sizeof value);
  return static_cast<double>(value);
}

template <typename T>
void write(void* data, T value) {
  std::memcpy(data, &value, sizeof value);
}

template <typename T>
void write_saturated(void* data, double value) {
  if (std::isnan(value)) return write(data, T{0});
  const double rounded = std::nearbyint(value);
  if (rounded <= static_cast<double>(std::numeric_limits<T>::min())) return write(data, std::numeric_limits<T>::min());
  if (rounded >= static_cast<double>(std::numeric_limits<T>::max())) return write(data, std::numeric_limits<T>::max());
  write(data, static_cast<T>(rounded));
}

}  // namespace

std::size_t size_of(DType dtype) { return info_of(dtype).size; }
std::string_view name_of(DType dtype) { return info_of(dtype).name; }
std::string_view safetensors_name_of(DType dtype) { return info_of(dtype).safetensors_name; }
bool is_float(DType dtype) { return info_of(dtype).is_float; }
std::optional<DType> parse_dtype(std::string_view name) { return find(&Info::name, name); }
std::optional<DType> parse_safetensors_dtype(std::string_view name) { return find(&Info::safetensors_name, name); }

float bf16_to_float(std::uint16_t bits) { return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16); }

std::uint16_t float_to_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if (std::isnan(value)) return static_cast<std::uint16_t>((bits >> 16) | 0x40U);
  return static_cast<std::uint16_t>((bits + 0x7FFFU + ((bits >> 16) & 1U)) >> 16);
}

double load_as_double(const void* data, DType dtype) {
  switch (dtype) {
    case DType::kF64:
      return read<double>(data);
    case DType::kF32:
      return read<float>(data);
    case DType::kF16:
      return kHalf.decode(static_cast<std::uint32_t>(read<std::uint16_t>(data)));
    case DType::kBF16:
      return kBrain.decode(static_cast<std::uint32_t>(read<std::uint16_t>(data)));
    case DType::kF8E4M3:
      return kE4M3.decode(static_cast<std::uint32_t>(read<std::uint8_t>(data)));
    case DType::kF8E5M2:
      return kE5M2.decode(static_cast<std::uint32_t>(read<std::uint8_t>(data)));
    case DType::kI64:
      return read<std::int64_t>(data);
    case DType::kI32:
      return read<std::int32_t>(data);
    case DType::kI8:
      return read<std::int8_t>(data);
    case DType::kU8:
      return read<std::uint8_t>(data);
    case DType::kBool:
      return read<std::uint8_t>(data) != 0 ? 1.0 : 0.0;
  }
  HR_CHECK(false);
}

void store_from_double(void* data, DType dtype, double value) {
  switch (dtype) {
    case DType::kF64:
      return write(data, value);
    case DType::kF32:
      return write(data, static_cast<float>(value));
    case DType::kF16:
      return write(data, static_cast<std::uint16_t>(kHalf.encode(value)));
    case DType::kBF16:
      return write(data, static_cast<std::uint16_t>(kBrain.encode(value)));
    case DType::kF8E4M3:
      return write(data, static_cast<std::uint8_t>(kE4M3.encode(value)));
    case DType::kF8E5M2:
      return write(data, static_cast<std::uint8_t>(kE5M2.encode(value)));
    case DType::kI64:
      return write_saturated<std::int64_t>(data, value);
    case DType::kI32:
      return write_saturated<std::int32_t>(data, value);
    case DType::kI8:
      return write_saturated<std::int8_t>(data, value);
    case DType::kU8:
      return write_saturated<std::uint8_t>(data, value);
    case DType::kBool:
      return write(data, static_cast<std::uint8_t>(value != 0 ? 1 : 0));
  }
  HR_CHECK(false);
}

}  // namespace headroom

fmt::format_context::iterator fmt::formatter<headroom::DType>::format(headroom::DType dtype,
                                                                      format_context& context) const {
  return formatter<std::string_view>::format(headroom::name_of(dtype), context);
}
