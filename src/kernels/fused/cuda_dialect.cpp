#include "kernels/fused/cuda_dialect.hpp"

#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <cstdint>

#include "base/error.hpp"

namespace headroom::cuda::dialect {
namespace {

#define HR_DEVICE_CODE(...) #__VA_ARGS__
constexpr std::string_view kMath =
#include "kernels/core/cuda/math_inl.cuh"
    ;
constexpr std::string_view kPrelude =
#include "kernels/fused/cuda_prelude_inl.cuh"
    ;
#undef HR_DEVICE_CODE

std::string in_lines(std::string_view code) {
  std::string lines;
  bool is_quoted = false;
  for (const char letter : code) {
    lines += letter;
    is_quoted ^= letter == '"';
    if (is_quoted) continue;
    if (letter == ';' || letter == '{' || letter == '}') lines += '\n';
  }
  return lines;
}

}  // namespace

std::string prelude() { return fmt::format("{}\n{}\n", in_lines(kMath), in_lines(kPrelude)); }

std::string_view formula_of(Op op) {
  switch (op) {
#define HR_ANY(enumerator, name, flops, formula, ...) \
  case Op::enumerator:                                \
    return #formula;
#include "ir/elementwise.def"
    default:
      HR_CHECK(false);
  }
}

std::string_view type_of(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return "F32";
    case DType::kBF16:
      return "Bf16";
    case DType::kF16:
      return "F16";
    case DType::kF8E4M3:
      return "F8E4M3";
    case DType::kI8:
      return "I8";
    default:
      return "U8";  // bool too
  }
}

std::string_view reduction_of(RowProgram::Do what) {
  switch (what) {
    case RowProgram::Do::kMax:
      return "Max";
    case RowProgram::Do::kMin:
      return "Min";
    case RowProgram::Do::kPeak:
      return "Peak";
    default:
      return "Sum";
  }
}

std::string number(double value) {
  if (!std::isfinite(value))
    return fmt::format("__uint_as_float(0x{:08X}U)", std::bit_cast<std::uint32_t>(static_cast<float>(value)));
  return fmt::format("{:.9e}F", static_cast<float>(value));
}

}  // namespace headroom::cuda::dialect
