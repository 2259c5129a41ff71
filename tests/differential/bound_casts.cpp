// Casts and quantizers, which jump where the bound of an operand reaches across a rounding boundary.

#include <algorithm>
#include <cmath>

#include "differential/bound_parts.hpp"

namespace headroom::differential {
namespace {

/// Whether every value of `from` is representable in `to`.
bool holds(DType to, DType from) {
  if (!is_float(to) || !is_float(from)) return false;
  const StorageUnit coarse = storage_unit(to), fine = storage_unit(from);
  return coarse.relative <= fine.relative && coarse.least <= fine.least;  // bf16 and f16 do not contain each other
}

}  // namespace

/// Rounding is monotonic, so the rounded ends of the interval enclose all values between.
Errors cast_errors(const Site& site) {
  const OracleTensor& x = site.operands[0]->value;
  const DType from = x.type.dtype, to = site.results[0].type.dtype;
  // If f32 counts as a real number like f64, a cast between them may or may not round.
  const bool is_real = site.covers == Covers::kReals && from == DType::kF64 && to == DType::kF32;
  const bool widens = holds(to, from) || is_real;
  Field error = site.operands[0]->error;
  for (std::size_t i = 0; i < error.size(); ++i) {
    const double value = value_at(x, i), result = value_at(site.results[0], i), reach = error[i];
    if (std::isinf(value)) {
      if (result != value) error[i] = kInfinity;
    } else if (site.covers == Covers::kUnrounded) {
      error[i] += std::fabs(result - value) + storage_unit(to).relative * std::fabs(value) + (is_float(to) ? 0 : 0.5);
      if (!is_float(from) && reach == 0) error[i] = 0;
    } else if (to == DType::kBool) {
      error[i] = reach > 0 && std::fabs(value) <= reach ? 1 : 0;
    } else if (widens) {
      // For values that the narrower dtype has rounded already.
      error[i] += storage_unit(to).relative * (std::fabs(value) + reach);
    } else if (reach > 0) {
      error[i] = std::max(round_to(to, value + reach) - result, result - round_to(to, value - reach));
    }
  }
  return {error};
}

/// Scales have the relative error of the peak. Elements have that error too, plus a step if their interval crosses a
/// boundary.
Errors quantize_errors(const Site& site) {
  const Bounded& x = *site.operands[0];
  const DType dtype = site.results[0].type.dtype;
  const double largest = dtype == DType::kI8 ? 127 : 448;
  const auto width = static_cast<std::size_t>(x.value.type.shape[-1]);
  Errors errors = {Field(x.error.size()), Field(x.error.size() / width)};
  for (std::size_t row = 0; row < errors[1].size(); ++row) {
    double peak = 0, reach = 0;
    for (std::size_t i = row * width; i < (row + 1) * width; ++i) {
      peak = std::max(peak, std::fabs(x.value.reals[i]));
      reach = std::max(reach, x.error[i]);
    }
    const bool is_clear = std::isfinite(peak) && (reach == 0 || (peak > 2 * reach && peak > 0x1p-90));
    const double scale = site.results[1].reals[row];
    double& scale_error = errors[1][row];
    if (!is_clear)
      scale_error = kInfinity;
    else if (site.covers == Covers::kReals && reach > 0)
      scale_error = std::max(round_to(DType::kF32, (peak + reach) / largest) - scale,
                             scale - round_to(DType::kF32, (peak - reach) / largest));
    else if (peak > 0)
      scale_error = reach / largest + kSingleUnit * scale;
    const double relative = is_clear && peak > 0 ? reach / (peak - reach) : 0;
    for (std::size_t i = row * width; i < (row + 1) * width; ++i) {
      const double scaled = peak > 0x1p-100 ? x.value.reals[i] * largest / peak : x.value.reals[i];
      const double q = value_at(site.results[0], i);
      double off = (x.error[i] * largest / std::max(peak, 0x1p-100) + std::fabs(scaled) * relative) * (1 + relative);
      if (site.covers != Covers::kReals) off += 4 * kSingleUnit * std::fabs(scaled);
      if (!is_clear)
        errors[0][i] = std::isfinite(reach) ? 2 * largest : kInfinity;
      else if (site.covers == Covers::kUnrounded)
        errors[0][i] = off + std::fabs(q - scaled) + (dtype == DType::kI8 ? 0.5 : 0x1p-4 * std::fabs(scaled) + 0x1p-10);
      else if (off > 0)
        errors[0][i] = std::max(round_to(dtype, scaled + off) - q, q - round_to(dtype, scaled - off));
      errors[0][i] = std::max(0.0, errors[0][i]);
    }
  }
  return errors;
}

}  // namespace headroom::differential
