#include <algorithm>
#include <cstring>

#include "api/impl.hpp"
#include "base/error.hpp"
#include "base/tensors/dtype.hpp"
#include "base/tensors/host_tensor.hpp"

namespace headroom::v1 {
namespace {

// The public list of dtypes is checked against the inner one.
#define HR_DTYPE(enumerator, ...) static_assert(inner(DType::enumerator) == headroom::DType::enumerator);
#include "base/tensors/dtypes.def"
#undef HR_DTYPE

std::size_t bytes_of(DType dtype, const headroom::Shape& shape) {
  return static_cast<std::size_t>(shape.numel()) * size_of(dtype);
}

void require_f32(DType dtype) {
  if (dtype != DType::kF32) fail("the elements of a tensor of {} are no floats", name_of(dtype));
}

}  // namespace

HostTensor copy_of(const TensorView& view) {
  HostTensor copy(inner(view.dtype), inner(view.shape));
  if (view.bytes.size() != copy.bytes().size())
    fail("a tensor {}{} takes {} bytes, got {}", copy.dtype(), copy.shape(), copy.bytes().size(), view.bytes.size());
  std::ranges::copy(view.bytes, copy.bytes().begin());
  return copy;
}

Tensor outer(const HostTensor& tensor) {
  Tensor copy(outer(tensor.dtype()), outer(tensor.shape()));
  std::ranges::copy(tensor.bytes(), copy.bytes().begin());
  return copy;
}

std::string_view name_of(DType dtype) { return headroom::name_of(inner(dtype)); }
std::size_t size_of(DType dtype) { return headroom::size_of(inner(dtype)); }

headroom::Shape inner(const Shape& shape) {
  if (shape.size() > static_cast<std::size_t>(headroom::Shape::kMaxRank))
    fail("a shape has {} axes, expected at most {}", shape.size(), headroom::Shape::kMaxRank);
  const headroom::Shape result{std::span(shape)};
  if (std::ranges::any_of(shape, [](std::int64_t extent) { return extent < 0; }))
    fail("a shape is {}, expected no extent below 0", result);
  return result;
}

Shape outer(const headroom::Shape& shape) { return {shape.dims().begin(), shape.dims().end()}; }

std::string to_string(const Shape& shape) {
  return translated([&] { return inner(shape).to_string(); });
}

TensorView view_of(Shape shape, std::span<const float> elements) {
  return translated([&] {
    const headroom::Shape extents = inner(shape);
    if (static_cast<std::size_t>(extents.numel()) != elements.size())
      fail("a tensor f32{} has {} elements, got {}", extents, extents.numel(), elements.size());
    return TensorView{DType::kF32, std::move(shape), std::as_bytes(elements)};
  });
}

Tensor::Tensor(DType dtype, Shape shape)
    : dtype_(dtype), shape_(std::move(shape)), bytes_(translated([&] { return bytes_of(dtype, inner(shape_)); })) {}

std::span<float> Tensor::floats() {
  translated([&] { require_f32(dtype_); });
  return {reinterpret_cast<float*>(bytes_.data()), bytes_.size() / sizeof(float)};
}

std::span<const float> Tensor::floats() const {
  translated([&] { require_f32(dtype_); });
  return {reinterpret_cast<const float*>(bytes_.data()), bytes_.size() / sizeof(float)};
}

const Device& DeviceTensor::device() const { return impl_->device; }
DType DeviceTensor::dtype() const { return outer(impl_->tensor.dtype); }
Shape DeviceTensor::shape() const { return outer(impl_->tensor.shape); }
std::size_t DeviceTensor::bytes() const { return bytes_of(dtype(), impl_->tensor.shape); }
void* DeviceTensor::data() const { return impl_->tensor.memory.at().address(); }

Tensor DeviceTensor::to_host() const {
  return translated([&] { return outer(headroom::to_host(impl_->tensor, impl_->device.impl_->here())); });
}

double relative_l2(const TensorView& actual, const TensorView& expected) {
  return translated([&] { return headroom::relative_l2(copy_of(actual), copy_of(expected)); });
}

}  // namespace headroom::v1
