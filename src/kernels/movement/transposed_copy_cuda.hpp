#pragma once

#include "kernels/movement/copy_cuda.hpp"

namespace headroom::cuda {

/// Submits the copy if it changes the innermost axis, in units of at most 8 bytes, and both sides allow packs;
/// returns whether it did.
[[nodiscard]] bool launch_transposed(void* stream, const CopyRows& rows, const void* from, void* to);

}  // namespace headroom::cuda
