#include <dlfcn.h>
#include <fmt/format.h>

#include <string>

#include "base/error.hpp"
#include "base/out_of_memory.hpp"
#include "kernels/cublaslt/library.cuh"

namespace headroom::cublaslt {
namespace {

const std::string& soname() {
  static const std::string kName = fmt::format("libcublasLt.so.{}", CUBLAS_VER_MAJOR);
  return kName;
}

Library open_library() {
  void* const file = dlopen(soname().c_str(), RTLD_NOW | RTLD_LOCAL);
  if (file == nullptr)
    fail(
        "matrix products on a GPU need {} (cuBLAS), which the loader does not find: {}; install it or put its folder "
        "into "
        "LD_LIBRARY_PATH",
        soname(), dlerror());
  Library library;
  const auto resolve = [&](auto& function, const char* name) {
    function = reinterpret_cast<std::decay_t<decltype(function)>>(dlsym(file, name));
    if (function == nullptr)
      fail("{} has no function {}; install cuBLAS {} or newer", soname(), name, CUBLAS_VER_MAJOR);
  };
#define HR_CUBLASLT(function) resolve(library.function, "cublasLt" #function);
#include "kernels/cublaslt/functions.def"
#undef HR_CUBLASLT
  if (const cublasStatus_t status = library.Create(&library.handle); status != CUBLAS_STATUS_SUCCESS)
    fail("cuBLAS does not start on this GPU: {}", library.GetStatusString(status));
  return library;
}

}  // namespace

const Library& library() {
  static const Library kLibrary = open_library();
  return kLibrary;
}

void check(cublasStatus_t status, std::source_location where) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  const std::string message = fmt::format("cuBLAS failed with {}, seen at {}:{}", library().GetStatusString(status),
                                          where.file_name(), where.line());
  if (status == CUBLAS_STATUS_ALLOC_FAILED) throw OutOfMemory(message);
  throw Error(message);
}

}  // namespace headroom::cublaslt
