#pragma once

#include "base/out_of_memory.hpp"
#include "kernels/core/kernel.hpp"

namespace headroom::cuda {

/// Returns the result of prepare(). Rethrows any Error but OutOfMemory as CannotPrepare with the same message, so
/// that another kernel is tried.
template <class Prepare>
auto or_cannot_prepare(const Prepare& prepare) {
  try {
    return prepare();
  } catch (const OutOfMemory&) {
    throw;
  } catch (const Error& error) {
    throw CannotPrepare(error.what());
  }
}

}  // namespace headroom::cuda
