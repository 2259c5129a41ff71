#pragma once

#include <cublasLt.h>

#include <source_location>

namespace headroom::cublaslt {

/// The functions of the library that are used, resolved when it is opened.
struct Library {
#define HR_CUBLASLT(function) decltype(&::cublasLt##function) function = nullptr;
#include "kernels/cublaslt/functions.def"
#undef HR_CUBLASLT
  cublasLtHandle_t handle = nullptr;  ///< for the current device; lives as long as the process
};

/// The library, opened by its soname at the first call. Throws Error where it is not there, saying what was looked for.
[[nodiscard]] const Library& library();

/// Throws Error with the library's words unless `status` is success.
void check(cublasStatus_t status, std::source_location where = std::source_location::current());

}  // namespace headroom::cublaslt
