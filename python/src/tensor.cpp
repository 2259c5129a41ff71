#include "tensor.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <tuple>
#include <utility>

#include "whole.hpp"

namespace headroom::python {
namespace {

using namespace nb::literals;

struct NamedType {
  DType dtype;
  dlpack::DataType code;
  const char* numpy;  // of numpy itself, or of ml_dtypes where numpy's own name is `stand_in`
  const char* stand_in = nullptr;
  dlpack::DataType stand_in_code = {};
};

constexpr std::array kTypes = {
    NamedType{DType::kF64, {dlpack::kFloat, 64, 1}, "float64"},
    NamedType{DType::kF32, {dlpack::kFloat, 32, 1}, "float32"},
    NamedType{DType::kF16, {dlpack::kFloat, 16, 1}, "float16"},
    NamedType{DType::kBF16, {dlpack::kBfloat, 16, 1}, "bfloat16", "uint16", {dlpack::kUInt, 16, 1}},
    NamedType{DType::kF8E4M3, {dlpack::kFloat8E4M3, 8, 1}, "float8_e4m3fn", "uint8", {dlpack::kUInt, 8, 1}},
    NamedType{DType::kF8E5M2, {dlpack::kFloat8E5M2, 8, 1}, "float8_e5m2", "uint8", {dlpack::kUInt, 8, 1}},
    NamedType{DType::kI64, {dlpack::kInt, 64, 1}, "int64"},
    NamedType{DType::kI32, {dlpack::kInt, 32, 1}, "int32"},
    NamedType{DType::kI8, {dlpack::kInt, 8, 1}, "int8"},
    NamedType{DType::kU8, {dlpack::kUInt, 8, 1}, "uint8"},
    NamedType{DType::kBool, {dlpack::kBool, 8, 1}, "bool"},
};

const NamedType& type_of(DType dtype) { return *std::ranges::find(kTypes, dtype, &NamedType::dtype); }

[[noreturn]] void raise_buffer_error(const std::string& message) {
  PyErr_SetString(PyExc_BufferError, message.c_str());
  throw nb::python_error();
}

DType dtype_of(dlpack::DataType code) {
  const auto* const found = std::ranges::find(kTypes, code, &NamedType::code);
  if (found == kTypes.end())
    throw Error("a tensor has elements of DLPack's code " + std::to_string(code.code) + " with " +
                    std::to_string(code.bits) + " bits and " + std::to_string(code.lanes) +
                    " lanes, expected one of f64, f32, f16, bf16, f8_e4m3fn, f8_e5m2, i64, i32, i8, u8 and bool",
                Error::Kind::kFailed);
  return found->dtype;
}

Shape dense_strides(const Shape& shape) {
  Shape strides(shape.size());
  std::int64_t next = 1;
  for (std::size_t i = shape.size(); i-- > 0;) {
    strides[i] = next;
    next *= std::max<std::int64_t>(shape[i], 1);
  }
  return strides;
}

std::int64_t count_of(const Shape& shape) {
  std::int64_t count = 1;
  for (const std::int64_t extent : shape) count *= extent;
  return count;
}

/// Releases what a producer gave. Its deleter may run Python code.
template <class Managed>
std::shared_ptr<void> owner_of(Managed* managed) {
  return {managed, [](Managed* given) {
            if (given->deleter == nullptr || Py_IsInitialized() == 0) return;
            const PyGILState_STATE state = PyGILState_Ensure();
            given->deleter(given);
            PyGILState_Release(state);
          }};
}

/// What a capsule that is given away holds until its consumer calls the deleter, on any thread.
template <class Managed>
struct Given {
  Managed managed;
  Shape shape;
  Shape strides;
  std::shared_ptr<void> owner;
};

template <class Managed>
nb::object give(std::unique_ptr<Given<Managed>> given, const char* name) {
  dlpack::Tensor& tensor = given->managed.tensor;
  tensor.ndim = static_cast<std::int32_t>(given->shape.size());
  tensor.shape = given->shape.data();
  tensor.strides = given->strides.data();
  given->managed.context = given.get();
  given->managed.deleter = [](Managed* managed) { delete static_cast<Given<Managed>*>(managed->context); };
  const PyCapsule_Destructor destroy = [](PyObject* capsule) {
    for (const char* const unused : {dlpack::kName, dlpack::kVersionedName})
      if (PyCapsule_IsValid(capsule, unused) != 0) {
        auto* const managed = static_cast<Managed*>(PyCapsule_GetPointer(capsule, unused));
        managed->deleter(managed);
      }
  };
  PyObject* const capsule = PyCapsule_New(&given->managed, name, destroy);
  if (capsule == nullptr) throw nb::python_error();
  static_cast<void>(given.release());
  return nb::steal(capsule);
}

/// Calls __dlpack__ as new producers want it, or else as old ones do.
nb::object ask_for_capsule(const nb::object& object, const nb::object& stream) {
  const nb::object give = object.attr("__dlpack__");
  nb::dict keywords;
  if (!stream.is_none()) keywords["stream"] = stream;
  keywords["max_version"] = nb::make_tuple(1, 3);
  try {
    return give(**keywords);
  } catch (nb::python_error& error) {
    if (!error.matches(PyExc_TypeError)) throw;
  }
  nb::dict without_version;
  if (!stream.is_none()) without_version["stream"] = stream;
  return give(**without_version);
}

template <class Managed>
Managed* take(const nb::object& capsule, const char* name, const char* used_name) {
  auto* const managed = static_cast<Managed*>(PyCapsule_GetPointer(capsule.ptr(), name));
  if (managed == nullptr || PyCapsule_SetName(capsule.ptr(), used_name) != 0) throw nb::python_error();
  return managed;
}

/// Copies elements in the order of rows.
void copy_strided(const PyTensor& from, std::byte* to) {
  const std::size_t size = size_of(from.dtype()), rank = from.shape().size();
  Shape index(rank, 0);
  const auto* const base = static_cast<const std::byte*>(from.data());
  for (std::int64_t left = count_of(from.shape()); left > 0; --left, to += size) {
    std::int64_t at = 0;
    for (std::size_t i = 0; i < rank; ++i) at += index[i] * from.strides()[i];
    std::memcpy(to, base + at * static_cast<std::int64_t>(size), size);
    for (std::size_t i = rank; i-- > 0;) {
      if (++index[i] < from.shape()[i]) break;
      index[i] = 0;
    }
  }
}

std::string where(dlpack::Device device) {
  return device.type == dlpack::kCpu
             ? "cpu"
             : (device.type == dlpack::kCuda ? std::string("cuda:")
                                             : "device type " + std::to_string(device.type) + ":") +
                   std::to_string(device.id);
}

bool is_numpy(const nb::object& object) {
  return nb::cast<std::string>(object.type().attr("__module__")) == "numpy" && nb::hasattr(object, "dtype") &&
         nb::hasattr(object, "view");
}

}  // namespace

DType dtype_named(std::string_view name) {
  for (const NamedType& type : kTypes)
    if (name_of(type.dtype) == name) return type.dtype;
  std::string names;
  for (const NamedType& type : kTypes) names += (names.empty() ? "" : ", ") + std::string(name_of(type.dtype));
  throw Error("the dtype is '" + std::string(name) + "', expected one of " + names, Error::Kind::kUsage);
}

PyTensor PyTensor::of(Tensor tensor) {
  auto owner = std::make_shared<Tensor>(std::move(tensor));
  PyTensor result;
  result.dtype_ = owner->dtype();
  result.shape_ = owner->shape();
  result.strides_ = dense_strides(result.shape_);
  result.data_ = owner->bytes().data();
  result.owner_ = std::move(owner);
  return result;
}

PyTensor PyTensor::of(const DeviceTensor& tensor, const PyDevice& device) {
  PyTensor result;
  const std::string name = tensor.device().name();
  if (name.starts_with("cuda:")) result.device_ = {dlpack::kCuda, std::stoi(name.substr(5))};
  result.dtype_ = tensor.dtype();
  result.shape_ = tensor.shape();
  result.strides_ = dense_strides(result.shape_);
  result.data_ = tensor.data();
  // Its memory may be freed by any thread, but only in a turn of the device.
  result.owner_ = {new DeviceTensor(tensor), [use = device.use](DeviceTensor* held) {
                     use->destroy([held = std::shared_ptr<DeviceTensor>(held)]() mutable { held.reset(); });
                   }};
  return result;
}

PyTensor PyTensor::read(const nb::object& object, const nb::object& stream, std::optional<DType> dtype) {
  const nb::object capsule = ask_for_capsule(object, stream);
  PyTensor result;
  const auto fill = [&](const dlpack::Tensor& tensor) {
    result.device_ = tensor.device;
    result.dtype_ = dtype ? *dtype : dtype_of(tensor.dtype);
    if (tensor.ndim < 0 || tensor.ndim > 8)
      throw Error("a tensor has " + std::to_string(tensor.ndim) + " axes, expected at most 8", Error::Kind::kFailed);
    const auto rank = static_cast<std::size_t>(tensor.ndim);
    result.shape_.assign(tensor.shape, tensor.shape + rank);
    if (tensor.strides == nullptr)
      result.strides_ = dense_strides(result.shape_);
    else
      result.strides_.assign(tensor.strides, tensor.strides + rank);
    result.data_ = tensor.data == nullptr ? nullptr : static_cast<std::byte*>(tensor.data) + tensor.byte_offset;
  };
  if (PyCapsule_IsValid(capsule.ptr(), dlpack::kVersionedName) != 0) {
    auto* const managed = take<dlpack::VersionedTensor>(capsule, dlpack::kVersionedName, dlpack::kUsedVersionedName);
    result.owner_ = owner_of(managed);
    if (managed->version.major != 1)  // whose other fields may mean anything
      throw Error("a tensor came by DLPack " + std::to_string(managed->version.major) + ", expected version 1",
                  Error::Kind::kFailed);
    fill(managed->tensor);
    result.is_read_only_ = (managed->flags & dlpack::kReadOnly) != 0;
  } else if (PyCapsule_IsValid(capsule.ptr(), dlpack::kName) != 0) {
    auto* const managed = take<dlpack::ManagedTensor>(capsule, dlpack::kName, dlpack::kUsedName);
    result.owner_ = owner_of(managed);
    fill(managed->tensor);
  } else {
    throw Error("__dlpack__ gave no unused capsule of DLPack: a capsule is taken once", Error::Kind::kFailed);
  }
  return result;
}

PyTensor PyTensor::from(const nb::object& object, std::optional<std::intptr_t> stream) {
  if (nb::isinstance<PyTensor>(object)) return nb::cast<PyTensor>(object);
  if (!nb::hasattr(object, "__dlpack__")) {
    const std::string name = nb::cast<std::string>(nb::str(object.type().attr("__name__")));
    throw nb::type_error(
        ("a tensor was expected, an object with __dlpack__ such as an array of numpy, got " + name).c_str());
  }
  if (is_numpy(object)) {  // elements that numpy has from ml_dtypes do not pass through DLPack
    const std::string name = nb::cast<std::string>(object.attr("dtype").attr("name"));
    for (const NamedType& type : kTypes)
      if (type.stand_in != nullptr && name == type.numpy)
        return read(object.attr("view")(type.stand_in), nb::none(), type.dtype);
    return read(object, nb::none(), std::nullopt);
  }
  // PyTorch exports such a view with the sign of what it is a view of.
  if (nb::hasattr(object, "is_neg") && nb::cast<bool>(object.attr("is_neg")()))
    return read(object.attr("resolve_neg")(), nb::none(), std::nullopt);
  const auto [type, id] = nb::cast<std::pair<int, int>>(object.attr("__dlpack_device__")());
  const bool is_gpu = type == dlpack::kCuda || type == dlpack::kCudaManaged;
  return read(object, is_gpu && stream ? nb::object(nb::int_(*stream)) : nb::object(nb::none()), std::nullopt);
}

std::size_t PyTensor::bytes() const { return static_cast<std::size_t>(count_of(shape_)) * size_of(dtype_); }

bool PyTensor::is_dense() const {
  if (count_of(shape_) == 0) return true;
  std::int64_t next = 1;
  for (std::size_t i = shape_.size(); i-- > 0;) {
    if (shape_[i] != 1 && strides_[i] != next) return false;
    next *= shape_[i];
  }
  return true;
}

TensorView PyTensor::view() const { return {dtype_, shape_, {static_cast<const std::byte*>(data_), bytes()}}; }

PyTensor PyTensor::copy() const {
  if (!is_on_host())
    throw Error("a tensor on " + where(device_) + " is not copied to the host here: use its library's own copy",
                Error::Kind::kFailed);
  Tensor dense(dtype_, shape_);
  if (is_dense())
    std::ranges::copy(view().bytes, dense.bytes().begin());
  else
    copy_strided(*this, dense.bytes().data());
  return of(std::move(dense));
}

PyTensor PyTensor::as(DType dtype) const {
  if (size_of(dtype) != size_of(dtype_))
    throw Error("elements of " + std::string(name_of(dtype_)) + " were asked for as " + std::string(name_of(dtype)) +
                    ", which has another size",
                Error::Kind::kUsage);
  PyTensor same = *this;
  same.dtype_ = dtype;
  return same;
}

nb::object PyTensor::capsule(dlpack::DataType dtype, bool is_versioned, std::uint64_t flags) const {
  const dlpack::Tensor tensor{.data = count_of(shape_) == 0 ? nullptr : data_, .device = device_, .dtype = dtype};
  if (!is_versioned) {
    if (is_read_only_) raise_buffer_error("this tensor is read-only, which only DLPack 1.0 can say: give max_version");
    auto given = std::make_unique<Given<dlpack::ManagedTensor>>();
    given->managed.tensor = tensor;
    given->shape = shape_;
    given->strides = strides_;
    given->owner = owner_;
    return give(std::move(given), dlpack::kName);
  }
  auto given = std::make_unique<Given<dlpack::VersionedTensor>>();
  given->managed.flags = flags | (is_read_only_ ? dlpack::kReadOnly : 0);
  given->managed.tensor = tensor;
  given->shape = shape_;
  given->strides = strides_;
  given->owner = owner_;
  return give(std::move(given), dlpack::kVersionedName);
}

nb::object PyTensor::to_capsule(const nb::object& stream, const nb::object& max_version, const nb::object& dl_device,
                                std::optional<bool> is_copied) const {
  const bool is_versioned = !max_version.is_none() && nb::cast<int>(max_version[0]) >= 1;
  if (!dl_device.is_none()) {
    const auto [type, id] = nb::cast<std::pair<int, int>>(dl_device);
    if (!(dlpack::Device{type, id} == device_))
      raise_buffer_error("this tensor is on " + where(device_) + " and was asked for on " + where({type, id}) +
                         ": use numpy() for a copy on the host");
  }
  if (!stream.is_none()) {
    const auto handle = to_whole<std::intptr_t>(stream, "stream");
    if (is_on_host() && handle != -1)
      raise_buffer_error("stream " + std::to_string(handle) + " was given for a tensor in host memory, expected None");
    // What is on a GPU here is complete: every stream may read it.
    if (!is_on_host() && (handle == 0 || handle < -1))
      raise_buffer_error("the stream is " + std::to_string(handle) +
                         ", which DLPack does not have for CUDA: 1 is the legacy default stream");
  }
  if (is_copied.value_or(false)) {
    if (!is_on_host()) raise_buffer_error("a copy on " + where(device_) + " is not made here: copy what you take");
    return copy().capsule(type_of(dtype_).code, is_versioned, dlpack::kIsCopied);
  }
  return capsule(type_of(dtype_).code, is_versioned, 0);
}

/// What numpy.from_dlpack() asks, for elements that pass as integers.
struct StandIn {
  PyTensor tensor;
};

nb::object PyTensor::to_numpy() const {
  if (!is_on_host())
    throw Error("this tensor is on " + where(device_) + ": to_host() gives a copy that numpy takes",
                Error::Kind::kUsage);
  const nb::module_ numpy = nb::module_::import_("numpy");
  const NamedType& type = type_of(dtype_);
  if (type.stand_in == nullptr) return numpy.attr("from_dlpack")(nb::cast(*this));
  nb::object own_type;
  try {
    own_type = nb::module_::import_("ml_dtypes").attr(type.numpy);
  } catch (nb::python_error&) {
    throw Error(std::string("numpy has no ") + type.numpy + ": pip install ml_dtypes", Error::Kind::kFailed);
  }
  return numpy.attr("from_dlpack")(nb::cast(StandIn{*this})).attr("view")(own_type);
}

void bind_tensor(nb::module_& module) {
  nb::class_<PyTensor>(module, "Tensor", "A tensor: of the library's memory, or of another library's by DLPack.")
      .def_prop_ro(
          "dtype", [](const PyTensor& self) { return std::string(name_of(self.dtype())); }, "'f32', 'bf16'")
      .def_prop_ro(
          "shape", [](const PyTensor& self) { return nb::tuple(nb::cast(self.shape())); },
          nb::sig("def shape(self) -> tuple[int, ...]"))
      .def_prop_ro(
          "strides", [](const PyTensor& self) { return nb::tuple(nb::cast(self.strides())); },
          nb::sig("def strides(self) -> tuple[int, ...]"), "In elements.")
      .def_prop_ro(
          "device", [](const PyTensor& self) { return where(self.device()); }, "'cpu', 'cuda:0'")
      .def_prop_ro(
          "data", [](const PyTensor& self) { return reinterpret_cast<std::uintptr_t>(self.data()); },
          "The address of the first element.")
      .def_prop_ro("nbytes", &PyTensor::bytes)
      .def_prop_ro("is_dense", &PyTensor::is_dense, "Whether the elements lie in the order of rows without gaps.")
      .def_prop_ro("is_read_only", &PyTensor::is_read_only)
      .def("copy", &PyTensor::copy, "A dense copy in host memory.")
      .def(
          "view", [](const PyTensor& self, std::string_view dtype) { return self.as(dtype_named(dtype)); }, "dtype"_a,
          "The same bytes under a dtype of the same size.")
      .def("numpy", &PyTensor::to_numpy, nb::sig("def numpy(self) -> typing.Any"),
           "An array of numpy on the same memory; bf16 and fp8 are types of ml_dtypes.")
      .def(
          "__array__",
          [](const PyTensor& self, const nb::object& dtype, std::optional<bool> copy) {
            nb::object array = self.to_numpy();
            if (!dtype.is_none() && !array.attr("dtype").equal(dtype)) {
              if (copy && !*copy) throw nb::value_error("another dtype takes a copy, and copy=False was given");
              return array.attr("astype")(dtype);
            }
            return copy.value_or(false) ? array.attr("copy")() : array;
          },
          "dtype"_a = nb::none(), "copy"_a = nb::none(),
          nb::sig("def __array__(self, dtype: typing.Any = None, copy: bool | None = None) -> typing.Any"))
      .def("__dlpack__", &PyTensor::to_capsule, nb::kw_only(), "stream"_a = nb::none(), "max_version"_a = nb::none(),
           "dl_device"_a = nb::none(), "copy"_a = nb::none(),
           nb::sig("def __dlpack__(self, *, stream: int | None = None, max_version: tuple[int, int] | None = None, "
                   "dl_device: tuple[int, int] | None = None, copy: bool | None = None) -> typing.Any"))
      .def("__dlpack_device__",
           [](const PyTensor& self) { return std::pair<int, int>(self.device().type, self.device().id); })
      .def("__repr__", [](const PyTensor& self) {
        return "headroom.Tensor(" + std::string(name_of(self.dtype())) + to_string(self.shape()) + ", " +
               where(self.device()) + ")";
      });
  nb::class_<StandIn>(module, "_StandIn")
      .def(
          "__dlpack__",
          [](const StandIn& self, const nb::object&, const nb::object& max_version, const nb::object&,
             const nb::object&) {
            const bool is_versioned = !max_version.is_none() && nb::cast<int>(max_version[0]) >= 1;
            return self.tensor.capsule(type_of(self.tensor.dtype()).stand_in_code, is_versioned, 0);
          },
          nb::kw_only(), "stream"_a = nb::none(), "max_version"_a = nb::none(), "dl_device"_a = nb::none(),
          "copy"_a = nb::none(),
          nb::sig("def __dlpack__(self, *, stream: typing.Any = None, max_version: tuple[int, int] | None = None, "
                  "dl_device: typing.Any = None, copy: typing.Any = None) -> typing.Any"))
      .def("__dlpack_device__",
           [](const StandIn& self) { return std::pair<int, int>(self.tensor.device().type, self.tensor.device().id); });
  module.def(
      "from_dlpack",
      [](const nb::object& object, OptionalWhole<std::intptr_t, "stream"> stream) {
        return PyTensor::from(object, stream);
      },
      "x"_a, nb::kw_only(), "stream"_a = nb::none(),
      nb::sig("def from_dlpack(x: typing.Any, /, *, stream: int | None = None) -> Tensor"),
      "Takes an object with __dlpack__ without a copy. Its work on a GPU is done before what is submitted to `stream`, "
      "a cudaStream_t, from now on.");
}

}  // namespace headroom::python
