#pragma once

#include <cstddef>
#include <span>

#include "testing/compare.hpp"

/// Kernels that show whether their successors begin early and wait (backends/cuda/early_launch.cuh).
namespace headroom::cuda {

inline constexpr std::size_t kMostLateCopies = 80;

/// A LateWork: a kernel that lets the next one begin at once, delays, and then makes at most kMostLateCopies copies.
void submit_late_copies(Stream& stream, std::span<const LateCopy> copies);

/// A kernel that ends when the device word at `begun` is not 0, or after some seconds, and writes the word to
/// `found`.
void submit_until_begun(Stream& stream, DevicePointer begun, DevicePointer found);
/// A kernel that writes 1 to `begun`, and only then waits for earlier kernels.
void submit_begun(Stream& stream, DevicePointer begun);

}  // namespace headroom::cuda
