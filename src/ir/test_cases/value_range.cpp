#include "ir/test_cases/value_range.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <vector>

#include "base/tensors/random.hpp"
#include "ir/op_definition.hpp"

namespace headroom {
namespace {

constexpr std::int64_t kPositions = 64;
constexpr std::int64_t kFusedIndices = 100;  // of larger tables
constexpr double kTypicalScale = 0.01;       // of quantized values
constexpr double kQuantizedDeviation = 32;   // of f8 elements that are multiplied by such a scale

/// The role of an operand of the op itself; nothing for one of its epilogue.
std::optional<Role> role_of(const OpSpec& spec, std::size_t index) {
  if (index >= spec.own_operands()) return std::nullopt;
  return schema_of(spec.op).operands.at(index).role;
}

/// The number of products that one result sums up.
std::int64_t fan_in(const OpSpec& spec, const Shape& weight) {
  const int results = spec.op == Op::kConvTranspose2d ? 1 : 0;  // the axis of the channels that it makes
  return std::max<std::int64_t>(1, weight.numel() / weight[results]);
}

}  // namespace

ValueRange value_range(DType dtype) {
  if (is_float(dtype)) return {};
  if (dtype == DType::kBool) return {.kind = ValueRange::kIntegers, .count = 2};
  if (dtype == DType::kU8) return {.kind = ValueRange::kIntegers, .count = 200};
  return {.kind = ValueRange::kIntegers, .low = -127, .count = 255};
}

ValueRange value_range(const OpSpec& spec, std::size_t index) {
  const TensorType& type = spec.inputs[index];
  const std::optional<Role> role = role_of(spec, index);
  const bool is_row = role == Role::kIndex || (role == Role::kIds && index > 0);
  // Scales of blocks are finite numbers of f16, whose upper byte is at most 123.
  if (role == Role::kBlocks) return {.kind = ValueRange::kIntegers, .count = 124};
  if (is_row) return {.kind = ValueRange::kIntegers, .count = spec.inputs[0].shape[0]};
  if (role == Role::kIds) return {.kind = ValueRange::kIntegers, .count = kPositions};
  if (role == Role::kInput && (type.dtype == DType::kI32 || type.dtype == DType::kI64))
    return {.kind = ValueRange::kIntegers, .count = kFusedIndices};
  if (role == Role::kTime && is_float(type.dtype)) return {.kind = ValueRange::kUniform};
  if (role == Role::kXScale || role == Role::kWeightScale) return {.scale = kTypicalScale};
  if (role == Role::kQScale || role == Role::kKScale || role == Role::kVScale)
    return {.kind = ValueRange::kAboveZero, .scale = kTypicalScale};
  const bool has_scores_in_8_bits = schema_of(spec.op).operands.find(Role::kQScale).has_value();
  if (has_scores_in_8_bits && is_float(type.dtype)) return {.scale = kQuantizedDeviation};
  const bool is_weight = (role == Role::kWeight || role == Role::kShortcut) && is_contraction(spec.op);
  const bool has_scale = schema_of(spec.op).operands.find(Role::kWeightScale).has_value();
  if (is_weight && !has_scale && is_float(type.dtype))
    return {.scale = 1 / std::sqrt(static_cast<double>(fan_in(spec, type.shape)))};
  return value_range(type.dtype);
}

OracleTensor random_input(const OpSpec& spec, std::size_t index, std::uint64_t seed) {
  const TensorType& type = spec.inputs[index];
  const ValueRange range = value_range(spec, index);
  OracleTensor tensor{.type = type, .reals = {}, .integers = {}};
  std::vector<float> draws(static_cast<std::size_t>(type.shape.numel()));
  if (range.kind == ValueRange::kNormal || range.kind == ValueRange::kAboveZero)
    fill_normal(draws, seed, index);
  else
    fill_uniform(draws, seed, index);
  for (const float draw : draws) {
    const auto step = std::min(range.count - 1, static_cast<std::int64_t>(draw * static_cast<float>(range.count)));
    if (!is_float(type.dtype)) {
      tensor.integers.push_back(range.low + step);
      continue;
    }
    double value = range.scale * static_cast<double>(draw);
    if (range.kind == ValueRange::kIntegers) value = static_cast<double>(range.low + step);
    if (range.kind == ValueRange::kAboveZero) value = range.scale * (0.5 + std::fabs(static_cast<double>(draw)));
    std::array<std::byte, 8> rounded{};
    store_from_double(rounded.data(), type.dtype, value);
    tensor.reals.push_back(load_as_double(rounded.data(), type.dtype));
  }
  return tensor;
}

std::vector<OracleTensor> random_operands(const OpSpec& spec, std::uint64_t seed) {
  std::vector<OracleTensor> operands;
  for (std::size_t i = 0; i < spec.inputs.size(); ++i) operands.push_back(random_input(spec, i, seed));
  return operands;
}

}  // namespace headroom
