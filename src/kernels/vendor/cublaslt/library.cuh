#pragma once

#include <cublasLt.h>

#include <source_location>

#include "backends/backend.hpp"

namespace headroom::cublaslt {

/// The functions of the library that are used, resolved when it is opened.
struct Library {
#define HR_CUBLASLT(function) decltype(&::cublasLt##function) function = nullptr;
#include "kernels/vendor/cublaslt/functions.def"
#undef HR_CUBLASLT
};

/// The library, opened by its soname at the first call. Throws Error with the searched names if it is missing.
[[nodiscard]] const Library& library();

/// Throws Error with the library's words unless `status` is success.
void check(cublasStatus_t status, std::source_location where = std::source_location::current());

/// The library on one device: Backend::context.
class Context {
 public:
  explicit Context(Backend& backend);
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  [[nodiscard]] cublasLtHandle_t handle() const noexcept { return handle_; }

 private:
  cublasLtHandle_t handle_ = nullptr;
};

}  // namespace headroom::cublaslt
