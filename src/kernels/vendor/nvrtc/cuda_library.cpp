#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include "base/error.hpp"
#include "base/files/opened_library.hpp"
#include "kernels/vendor/nvrtc/library.cuh"

namespace headroom::nvrtc {
namespace {

constexpr int kMajor = CUDART_VERSION / 1000;  // nvrtc.h does not say; one toolkit has both

Library open_library() {
  const OpenedLibrary file("a kernel that is made at run time", fmt::format("libnvrtc.so.{}", kMajor),
                           fmt::format("NVRTC {}", kMajor));
  Library library;
#define HR_NVRTC(function) file.resolve(library.function, "nvrtc" #function);
#include "kernels/vendor/nvrtc/functions.def"
#undef HR_NVRTC
  return library;
}

}  // namespace

const Library& library() {
  static const Library kLibrary = open_library();
  return kLibrary;
}

void check(nvrtcResult status, std::source_location where) {
  if (status == NVRTC_SUCCESS) return;
  fail("NVRTC failed with {}, seen at {}:{}", library().GetErrorString(status), where.file_name(), where.line());
}

}  // namespace headroom::nvrtc
