#include "testing/test_tensor.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <numeric>

#include "base/error.hpp"

namespace headroom {
namespace {

/// Larger than any overrun of a vector register or unrolled loop; a multiple of every alignment.
constexpr std::size_t kGuardBytes = 1024;

/// Byte `position` of a poisoned element: all ones is a NaN in every floating-point dtype, and so is all ones except
/// the sign.
std::byte poison_byte(DType dtype, std::size_t position, TestTensor::Role role) {
  const bool input = role == TestTensor::Role::kInput;
  if (!is_float(dtype)) return input ? std::byte{0xA5} : std::byte{0x5A};
  const bool top = position % size_of(dtype) == size_of(dtype) - 1;
  return top && !input ? std::byte{0x7F} : std::byte{0xFF};
}

/// The offset of element `index` (row-major) of a strided tensor, in elements.
std::int64_t offset_of(const Operand& operand, std::int64_t index) {
  std::int64_t offset = 0;
  for (int axis = operand.type.shape.rank() - 1; axis >= 0; --axis) {
    const std::int64_t extent = operand.type.shape[axis];
    offset += index % extent * operand.strides[axis];
    index /= extent;
  }
  return offset;
}

/// Bytes from the first element to the end of the last.
std::size_t span_bytes(const Operand& operand) {
  if (operand.type.shape.numel() == 0) return 0;
  return static_cast<std::size_t>(offset_of(operand, operand.type.shape.numel() - 1) + 1) * size_of(operand.type.dtype);
}

/// Strides of a tensor whose axes lie in memory in `order`, outermost first, with `padding` elements after each run
/// of every axis but the innermost.
Shape strides_in_order(const Shape& shape, const std::vector<int>& order, std::int64_t padding) {
  Shape strides = shape;
  std::int64_t stride = 1;
  for (std::size_t i = order.size(); i-- > 0;) {
    strides.set(order[i], stride);
    stride = stride * shape[order[i]] + padding;
  }
  return strides;
}

}  // namespace

Operand place_for_test(const TensorType& type, const StrideRule& rule, TestStrides strides, std::size_t index) {
  const Operand dense = dense_operand(type);
  const int rank = type.shape.rank();
  const bool is_any = rule.form == StrideRule::kAny;
  if (rule.form == StrideRule::kDense || strides == TestStrides::kDense || type.layout != Layout::kRowMajor ||
      rank == 0)
    return dense;
  if (rank == 1) return is_any ? Operand{type, Shape{2}} : dense;
  const auto unit = static_cast<std::int64_t>(std::max<std::size_t>(1, rule.alignment / size_of(type.dtype)));
  if (type.shape[-1] % unit != 0) return dense;
  std::vector<int> order(static_cast<std::size_t>(rank));
  std::iota(order.begin(), order.end(), 0);
  if (strides == TestStrides::kPadded)
    return {type, strides_in_order(type.shape, order, unit * (index % 2 == 0 ? 3 : 7))};
  if (index % 2 == 0) std::reverse(order.begin(), is_any ? order.end() : order.end() - 1);
  return {type, strides_in_order(type.shape, order, 0)};
}

TestTensor::TestTensor(Backend& backend, const Operand& operand, Role role) : backend_(backend), operand_(operand) {
  const std::size_t size = size_of(operand.type.dtype);
  host_.resize(2 * kGuardBytes + span_bytes(operand));
  for (std::size_t i = 0; i < host_.size(); ++i) host_[i] = poison_byte(operand.type.dtype, i, role);
  is_element_.resize(host_.size());
  for (std::int64_t i = 0; i < operand.type.shape.numel(); ++i) {
    const std::size_t at = kGuardBytes + static_cast<std::size_t>(offset_of(operand, i)) * size;
    std::fill_n(is_element_.begin() + static_cast<std::ptrdiff_t>(at), size, true);
  }
  device_ = backend.allocate(host_.size(), MemoryCategory::kActivations);
}

TestTensor::TestTensor(Backend& backend, std::size_t bytes)
    : TestTensor(backend, dense_operand({DType::kU8, Shape{static_cast<std::int64_t>(bytes)}}), Role::kOutput) {
  std::ranges::fill(host_, std::byte{0xFF});  // a NaN in every floating-point dtype
}

void TestTensor::store(const OracleTensor& values) {
  const DType dtype = operand_.type.dtype;
  for (std::int64_t i = 0; i < operand_.type.shape.numel(); ++i) {
    std::byte* const at = host_.data() + (element(i) - host_.data());
    const auto index = static_cast<std::size_t>(i);
    if (dtype == DType::kI64)
      std::memcpy(at, &values.integers[index], sizeof(std::int64_t));
    else
      store_from_double(at, dtype, is_float(dtype) ? values.reals[index] : static_cast<double>(values.integers[index]));
  }
}

void TestTensor::upload(Stream& stream) {
  uploaded_ = host_;
  backend_.copy_from_host(stream, device_.at(), host_.data(), host_.size());
}

LateCopy TestTensor::hold_back(Stream& stream) {
  const std::vector<std::byte> poison(host_.size(), std::byte{0xFF});
  held_back_ = backend_.allocate(host_.size(), MemoryCategory::kActivations);
  backend_.copy_on_device(stream, held_back_.at(), device_.at(), host_.size());
  backend_.copy_from_host(stream, device_.at(), poison.data(), poison.size());
  return {held_back_.at(), device_.at(), host_.size()};
}

std::string TestTensor::download_and_check(Stream& stream, bool elements_may_change) {
  backend_.copy_to_host(stream, host_.data(), device_.at(), host_.size());
  stream.synchronize();
  for (std::size_t i = 0; i < host_.size(); ++i) {
    if (host_[i] == uploaded_[i] || (elements_may_change && is_element_[i])) continue;
    const auto from_start = static_cast<std::ptrdiff_t>(i) - static_cast<std::ptrdiff_t>(kGuardBytes);
    const auto from_end = from_start - static_cast<std::ptrdiff_t>(host_.size() - 2 * kGuardBytes);
    if (is_element_[i]) return fmt::format("was modified at byte {}", from_start);
    if (from_start < 0) return fmt::format("was overrun: {} bytes before its start", -from_start);
    if (from_end >= 0) return fmt::format("was overrun: byte {} after its end", from_end);
    return fmt::format("was written between its rows, at byte {}", from_start);
  }
  return {};
}

DevicePointer TestTensor::device() const noexcept { return device_.at(kGuardBytes); }

const std::byte* TestTensor::element(std::int64_t index) const {
  return host_.data() + kGuardBytes +
         static_cast<std::size_t>(offset_of(operand_, index)) * size_of(operand_.type.dtype);
}

double TestTensor::real(std::int64_t index) const { return load_as_double(element(index), operand_.type.dtype); }

std::int64_t TestTensor::integer(std::int64_t index) const {
  if (operand_.type.dtype != DType::kI64) return static_cast<std::int64_t>(real(index));
  std::int64_t value = 0;
  std::memcpy(&value, element(index), sizeof value);
  return value;
}

std::string coordinates_of(const Shape& shape, std::int64_t index) {
  Shape coordinates = shape;
  for (int axis = shape.rank() - 1; axis >= 0; --axis) {
    coordinates.set(axis, index % shape[axis]);
    index /= shape[axis];
  }
  return coordinates.to_string();
}

}  // namespace headroom
