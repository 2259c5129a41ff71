#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "dlpack.hpp"
#include "headroom.hpp"
#include "use.hpp"

namespace headroom::python {

/// A tensor of Python: memory of the library's, or of another library that gave it by DLPack.
class PyTensor {
 public:
  /// Takes it.
  [[nodiscard]] static PyTensor of(Tensor tensor);
  [[nodiscard]] static PyTensor of(const DeviceTensor& tensor, const PyDevice& device);
  /// Takes an object with __dlpack__, without a copy; its work on a GPU is ordered before that of `stream`. Throws
  /// Error for a type of elements that the library has not.
  [[nodiscard]] static PyTensor from(const nb::object& object, std::optional<std::intptr_t> stream);

  [[nodiscard]] DType dtype() const { return dtype_; }
  [[nodiscard]] const Shape& shape() const { return shape_; }
  [[nodiscard]] const Shape& strides() const { return strides_; }  // in elements
  [[nodiscard]] dlpack::Device device() const { return device_; }
  [[nodiscard]] void* data() const { return data_; }
  [[nodiscard]] std::size_t bytes() const;
  [[nodiscard]] bool is_dense() const;
  [[nodiscard]] bool is_read_only() const { return is_read_only_; }
  [[nodiscard]] bool is_on_host() const {
    return device_.type != dlpack::kCuda && device_.type != dlpack::kCudaManaged;
  }

  /// The elements of a dense tensor on the host.
  [[nodiscard]] TensorView view() const;
  /// A dense copy on the host.
  [[nodiscard]] PyTensor copy() const;
  /// The same bytes under a dtype of the same size.
  [[nodiscard]] PyTensor as(DType dtype) const;

  /// __dlpack__ of the Array API.
  [[nodiscard]] nb::object to_capsule(const nb::object& stream, const nb::object& max_version,
                                      const nb::object& dl_device, std::optional<bool> copy) const;
  /// An array of numpy on the same memory; of ml_dtypes' types where numpy has none.
  [[nodiscard]] nb::object to_numpy() const;
  /// A capsule that states this type of elements.
  [[nodiscard]] nb::object capsule(dlpack::DataType dtype, bool is_versioned, std::uint64_t flags) const;

 private:
  /// `dtype` replaces the dtype that the capsule states.
  [[nodiscard]] static PyTensor read(const nb::object& object, const nb::object& stream, std::optional<DType> dtype);

  dlpack::Device device_;
  DType dtype_ = DType::kF32;
  Shape shape_;
  Shape strides_;
  void* data_ = nullptr;
  bool is_read_only_ = false;
  std::shared_ptr<void> owner_;
};

/// "f32" becomes kF32. Throws a usage Error for another name.
[[nodiscard]] DType dtype_named(std::string_view name);

void bind_tensor(nb::module_& module);

}  // namespace headroom::python
