#include <dlfcn.h>
#include <fmt/format.h>

#include <array>
#include <string>
#include <utility>

#include "base/error.hpp"
#include "kernels/cudnn/library.cuh"

namespace headroom::cudnn {
namespace {

const std::string& soname() {
  static const std::string kName = fmt::format("libcudnn.so.{}", CUDNN_MAJOR);
  return kName;
}

Library open_library() {
  void* const file = dlopen(soname().c_str(), RTLD_NOW | RTLD_LOCAL);
  if (file == nullptr)
    fail("{} (cuDNN) is not found by the loader: {}; install it or put its folder into LD_LIBRARY_PATH", soname(),
         dlerror());
  Library library;
  const auto resolve = [&](auto& function, const char* name) {
    function = reinterpret_cast<std::decay_t<decltype(function)>>(dlsym(file, name));
    if (function == nullptr) fail("{} has no function {}; install cuDNN {} or newer", soname(), name, CUDNN_MAJOR);
  };
#define HR_CUDNN(function) resolve(library.function, "cudnn" #function);
#include "kernels/cudnn/functions.def"
#undef HR_CUDNN
  return library;
}

}  // namespace

const Library& library() {
  static const Library kLibrary = open_library();
  return kLibrary;
}

void check(cudnnStatus_t status, std::source_location where) {
  if (status == CUDNN_STATUS_SUCCESS) return;
  std::array<char, 512> details{};
  library().GetLastErrorString(details.data(), details.size());
  fail("cuDNN failed with {} ({}), seen at {}:{}", library().GetErrorString(status), details.data(), where.file_name(),
       where.line());
}

Descriptor::Descriptor(cudnnBackendDescriptorType_t type) {
  check(library().BackendCreateDescriptor(type, &descriptor_));
}

Descriptor::~Descriptor() {
  if (descriptor_ != nullptr) static_cast<void>(library().BackendDestroyDescriptor(descriptor_));
}

Descriptor::Descriptor(Descriptor&& other) noexcept : descriptor_(std::exchange(other.descriptor_, nullptr)) {}

Descriptor& Descriptor::operator=(Descriptor&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  return *this;
}

Descriptor& Descriptor::finalize() {
  check(library().BackendFinalize(descriptor_));
  return *this;
}

bool Descriptor::try_finalize() { return library().BackendFinalize(descriptor_) == CUDNN_STATUS_SUCCESS; }

}  // namespace headroom::cudnn
