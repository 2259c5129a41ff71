#include <fmt/format.h>

#include "backends/cuda/sonames.hpp"
#include "base/error.hpp"
#include "base/files/opened_library.hpp"
#include "kernels/vendor/nvrtc/library.cuh"

namespace headroom::nvrtc {
namespace {

Library open_library() {
  const GpuSonames names = gpu_sonames().value();
  const OpenedLibrary file("a kernel that is made at run time", names.nvrtc, fmt::format("NVRTC {}", names.cuda_major));
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
