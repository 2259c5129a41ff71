#include <fmt/format.h>

#include <array>

#include "base/error.hpp"
#include "base/opened_library.hpp"
#include "kernels/cudnn/library.cuh"

namespace headroom::cudnn {
namespace {

Library open_library() {
  const OpenedLibrary file("this kernel", fmt::format("libcudnn.so.{}", CUDNN_MAJOR),
                           fmt::format("cuDNN {}", CUDNN_MAJOR));
  Library library;
#define HR_CUDNN(function) file.resolve(library.function, "cudnn" #function);
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
  cudnnBackendDescriptor_t made = nullptr;
  check(library().BackendCreateDescriptor(type, &made));
  descriptor_.reset(made);
}

Descriptor& Descriptor::finalize() {
  check(library().BackendFinalize(get()));
  return *this;
}

bool Descriptor::try_finalize() { return library().BackendFinalize(get()) == CUDNN_STATUS_SUCCESS; }

}  // namespace headroom::cudnn
