// Building blocks shared by the rules of several op families.

#include "differential/bound_parts.hpp"

#include <algorithm>
#include <array>
#include <cmath>

namespace headroom::differential {
namespace {

/// Whether operand 1 is an index of rows.
bool reads_rows(Op op) { return op == Op::kRow || op == Op::kGather || op == Op::kScatterAdd; }

}  // namespace

double value_at(const OracleTensor& tensor, std::size_t i) {
  return is_float(tensor.type.dtype) ? tensor.reals[i] : static_cast<double>(tensor.integers[i]);
}

bool is_narrow(DType dtype) { return size_of(dtype) < size_of(DType::kF32); }

double function_unit(const Site& site) {
  const bool suffices = is_narrow(site.within.makes) || is_narrow(site.results[0].type.dtype);
  return suffices && site.covers != Covers::kReals ? 0x1p-12 : 4 * arithmetic_unit(site.covers);
}

double largest_of(DType dtype) {
  switch (dtype) {
    case DType::kF64:
      return std::numeric_limits<double>::max();
    case DType::kF16:
      return 65504;
    case DType::kF8E5M2:
      return 57344;
    case DType::kI64:
      return 0x1p53;  // the limit of exact integers in the oracle's doubles
    case DType::kI32:
      return std::numeric_limits<std::int32_t>::max();
    case DType::kU8:
      return 255;
    case DType::kI8:
      return 128;
    case DType::kBool:
      return 1;
    default:
      return 0.99 * static_cast<double>(std::numeric_limits<float>::max());
  }
}

Field magnitudes(const OracleTensor& tensor) {
  Field field(static_cast<std::size_t>(tensor.type.shape.numel()));
  for (std::size_t i = 0; i < field.size(); ++i) field[i] = std::fabs(value_at(tensor, i));
  return field;
}

StorageUnit storage_unit(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return {0x1p-24, 0x1p-126};  // results below the normal range may be flushed to zero
    case DType::kF16:
      return {0x1p-11, 0x1p-25};
    case DType::kBF16:
      return {0x1p-8, 0x1p-126};
    case DType::kF8E4M3:
      return {0x1p-4, 0x1p-10};
    case DType::kF8E5M2:
      return {0x1p-3, 0x1p-17};
    default:
      return {};
  }
}

double capped(double error, double most) { return std::isfinite(error) ? std::min(error, most) : kInfinity; }

double round_to(DType dtype, double value) {
  std::array<std::byte, 8> bytes{};
  store_from_double(bytes.data(), dtype, value);
  return load_as_double(bytes.data(), dtype);
}

Field evaluate(const Site& site, Op op, const Attributes& attributes, std::vector<Field> fields) {
  std::vector<OracleTensor> operands;
  for (std::size_t i = 0; i < fields.size(); ++i) {
    const TensorType& type = site.operands[i]->value.type;
    if (i == 1 && reads_rows(site.op))
      operands.push_back(site.operands[i]->value);
    else
      operands.push_back({{DType::kF64, type.shape, type.layout}, std::move(fields[i]), {}});
  }
  return interpret_node(op, attributes, operands)[0].reals;
}

std::vector<Field> operand_errors(const Site& site) {
  std::vector<Field> errors;
  for (const Bounded* operand : site.operands) errors.push_back(operand->error);
  return errors;
}

Errors with_roundings(const Site& site, double roundings, Errors errors) {
  std::vector<Field> sizes;
  for (const Bounded* operand : site.operands) sizes.push_back(magnitudes(operand->value));
  const Field size = evaluate(site, site.op, site.attributes, sizes);
  for (std::size_t i = 0; i < size.size(); ++i) errors[0][i] += roundings * arithmetic_unit(site.covers) * size[i];
  return errors;
}

}  // namespace headroom::differential
