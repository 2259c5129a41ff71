#pragma once

#include <cudnn.h>

#include <memory>
#include <mutex>
#include <source_location>
#include <span>
#include <string>
#include <vector>

#include "backends/backend.hpp"
#include "kernels/vendor/cudnn/installed.hpp"

namespace headroom::cudnn {

/// The functions of the library that are used, resolved when it is opened.
struct Library {
#define HR_CUDNN(function) decltype(&::cudnn##function) function = nullptr;
#include "kernels/vendor/cudnn/functions.def"
#undef HR_CUDNN
};

/// The library, opened by its soname at the first call. Throws Error with the searched names if it is missing.
[[nodiscard]] const Library& library();

/// Throws Error with the library's words unless `status` is success.
void check(cudnnStatus_t status, std::source_location where = std::source_location::current());

/// The library on one device: Backend::context.
class Context {
 public:
  explicit Context(Backend& /*backend*/);
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  [[nodiscard]] cudnnHandle_t handle() const noexcept { return handle_; }
  /// The handle has one stream at a time: held while it is used.
  [[nodiscard]] std::mutex& mutex() noexcept { return mutex_; }

 private:
  cudnnHandle_t handle_ = nullptr;
  std::mutex mutex_;
};

/// One of the library's descriptions: attributes are set, then it is finalized.
class Descriptor {
 public:
  explicit Descriptor(cudnnBackendDescriptorType_t type);

  template <typename T>
  Descriptor& set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, std::span<const T> values) {
    check(library().BackendSetAttribute(get(), name, type, static_cast<std::int64_t>(values.size()), values.data()));
    return *this;
  }
  template <typename T>
  Descriptor& set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, const T& value) {
    return set(name, type, std::span<const T>(&value, 1));
  }
  /// Returns the number of values that the attribute has. Throws Error if it cannot be read.
  template <typename T>
  std::int64_t get(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, std::span<T> values) const {
    std::int64_t count = 0;
    check(library().BackendGetAttribute(get(), name, type, static_cast<std::int64_t>(values.size()), &count,
                                        values.data()));
    return count;
  }
  /// The same for an attribute with one value.
  template <typename T>
  [[nodiscard]] T get(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type) const {
    T value{};
    get(name, type, std::span<T>(&value, 1));
    return value;
  }
  /// An attribute whose values are descriptors of this type, at most `most`.
  [[nodiscard]] std::vector<Descriptor> get_all(cudnnBackendAttributeName_t name, cudnnBackendDescriptorType_t type,
                                                std::size_t most) const;
  Descriptor& set(cudnnBackendAttributeName_t name, const Descriptor& other) {
    return set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, other.get());
  }
  /// Throws Error if the library does not support the descriptor.
  Descriptor& finalize();
  /// The same, but returns whether it is supported.
  [[nodiscard]] bool try_finalize();

  [[nodiscard]] cudnnBackendDescriptor_t get() const noexcept { return descriptor_.get(); }

 private:
  struct Destroy {
    void operator()(cudnnBackendDescriptor_t descriptor) const {
      static_cast<void>(library().BackendDestroyDescriptor(descriptor));
    }
  };
  std::unique_ptr<void, Destroy> descriptor_;
};

}  // namespace headroom::cudnn
