#include <fmt/format.h>

#include "backends/cuda/sonames.hpp"
#include "base/error.hpp"
#include "base/files/opened_library.hpp"
#include "base/out_of_memory.hpp"
#include "kernels/vendor/cublaslt/gemm.hpp"
#include "kernels/vendor/cublaslt/library.cuh"

namespace headroom::cublaslt {
namespace {

Library open_library() {
  const OpenedLibrary file("a matmul on a GPU", gpu_sonames().value().cublaslt,
                           fmt::format("cuBLAS {}", CUBLAS_VER_MAJOR));
  Library library;
#define HR_CUBLASLT(function) file.resolve(library.function, "cublasLt" #function);
#include "kernels/vendor/cublaslt/functions.def"
#undef HR_CUBLASLT
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

std::string version_text() {
  try {
    return fmt::format("cuBLASLt {}, parts joined in f32, residuals rounded once", library().GetVersion());
  } catch (const Error&) {  // not there
    return "without cuBLASLt";
  }
}

Context::Context(Backend& /*backend*/) {
  if (const cublasStatus_t status = library().Create(&handle_); status != CUBLAS_STATUS_SUCCESS)
    fail("cuBLAS does not start on this GPU: {}", library().GetStatusString(status));
}

Context::~Context() { static_cast<void>(library().Destroy(handle_)); }

}  // namespace headroom::cublaslt
