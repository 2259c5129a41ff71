#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "backends/cuda/sonames.hpp"
#include "base/error.hpp"
#include "base/files/opened_library.hpp"
#include "kernels/vendor/cudnn/library.cuh"

namespace headroom::cudnn {
namespace {

Library open_library() {
  const OpenedLibrary file("this kernel", gpu_sonames().value().cudnn, fmt::format("cuDNN {}", CUDNN_MAJOR));
  Library library;
#define HR_CUDNN(function) file.resolve(library.function, "cudnn" #function);
#include "kernels/vendor/cudnn/functions.def"
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

std::optional<std::string> why_not_installed() {
  try {
    static_cast<void>(library());
  } catch (const Error& error) {
    return error.what();
  }
  return std::nullopt;
}

std::string version_text() {
  const std::size_t version = library().GetVersion();
  return fmt::format("cuDNN {}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

Context::Context(Backend& /*backend*/) { check(library().Create(&handle_)); }

Context::~Context() { static_cast<void>(library().Destroy(handle_)); }

Descriptor::Descriptor(cudnnBackendDescriptorType_t type) {
  cudnnBackendDescriptor_t made = nullptr;
  check(library().BackendCreateDescriptor(type, &made));
  descriptor_.reset(made);
}

Descriptor& Descriptor::finalize() {
  check(library().BackendFinalize(get()));
  return *this;
}

std::vector<Descriptor> Descriptor::get_all(cudnnBackendAttributeName_t name, cudnnBackendDescriptorType_t type,
                                            std::size_t most) const {
  std::vector<Descriptor> found;  // the library fills existing descriptions
  std::vector<cudnnBackendDescriptor_t> slots;
  for (std::size_t i = 0; i < most; ++i) slots.push_back(found.emplace_back(type).get());
  const std::int64_t count = get(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, std::span(slots));
  found.erase(found.begin() + std::min<std::ptrdiff_t>(static_cast<std::ptrdiff_t>(most), count), found.end());
  return found;
}

bool Descriptor::try_finalize() { return library().BackendFinalize(get()) == CUDNN_STATUS_SUCCESS; }

}  // namespace headroom::cudnn
