#pragma once

#include "base/out_of_memory.hpp"
#include "kernels/core/kernel.hpp"

namespace headroom::cuda {

/// What prepare() gives. Throws CannotPrepare with the words of any Error but OutOfMemory, so that another kernel may do the work.
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
