#pragma once

#include <nvrtc.h>

#include <source_location>

namespace headroom::nvrtc {

/// The functions of the library that are used, resolved when it is opened.
struct Library {
#define HR_NVRTC(function) decltype(&::nvrtc##function) function = nullptr;
#include "kernels/vendor/nvrtc/functions.def"
#undef HR_NVRTC
};

/// The library, opened by its soname at the first call. Throws Error with the searched names if it is missing.
[[nodiscard]] const Library& library();

/// Throws Error with the library's words unless `status` is success.
void check(nvrtcResult status, std::source_location where = std::source_location::current());

}  // namespace headroom::nvrtc
