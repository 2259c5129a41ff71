#pragma once

#include <cstddef>
#include <cstdint>

/// DLPack's structs, by its specification (dmlc.github.io/dlpack, version 1.3): the layout in which Python libraries
/// hand tensors to each other.
namespace headroom::python::dlpack {

struct Version {
  std::uint32_t major = 1;
  std::uint32_t minor = 3;
};

inline constexpr std::int32_t kCpu = 1, kCuda = 2, kCudaHost = 3, kCudaManaged = 13;

struct Device {
  std::int32_t type = kCpu;
  std::int32_t id = 0;
  friend bool operator==(const Device&, const Device&) = default;
};

inline constexpr std::uint8_t kInt = 0, kUInt = 1, kFloat = 2, kBfloat = 4, kBool = 6, kFloat8E4M3 = 10,
                              kFloat8E5M2 = 12;

struct DataType {
  std::uint8_t code = kFloat;
  std::uint8_t bits = 32;
  std::uint16_t lanes = 1;
  friend bool operator==(const DataType&, const DataType&) = default;
};

struct Tensor {
  void* data = nullptr;
  Device device;
  std::int32_t ndim = 0;
  DataType dtype;
  std::int64_t* shape = nullptr;
  std::int64_t* strides = nullptr;  // in elements; null for row-major in older versions
  std::uint64_t byte_offset = 0;
};

/// Before version 1.
struct ManagedTensor {
  Tensor tensor;
  void* context = nullptr;
  void (*deleter)(ManagedTensor*) = nullptr;
};

inline constexpr std::uint64_t kReadOnly = 1, kIsCopied = 2;

struct VersionedTensor {
  Version version;
  void* context = nullptr;
  void (*deleter)(VersionedTensor*) = nullptr;
  std::uint64_t flags = 0;
  Tensor tensor;
};

static_assert(sizeof(Tensor) == 48 && offsetof(Tensor, byte_offset) == 40);
static_assert(offsetof(ManagedTensor, deleter) == 56);
static_assert(offsetof(VersionedTensor, flags) == 24 && offsetof(VersionedTensor, tensor) == 32);

/// Names of capsules; a consumer renames the one that it takes.
inline constexpr const char *kName = "dltensor", *kUsedName = "used_dltensor", *kVersionedName = "dltensor_versioned",
                            *kUsedVersionedName = "used_dltensor_versioned";

}  // namespace headroom::python::dlpack
