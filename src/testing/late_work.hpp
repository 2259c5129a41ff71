#pragma once

#include <cstddef>
#include <span>

#include "testing/compare.hpp"

/// Kernels that show whether those behind them begin early, and wait (backends/cuda/early_launch.cuh).
namespace headroom::cuda {

inline constexpr std::size_t kMostLateCopies = 80;

/// A LateWork: a kernel that lets the next one begin at once, takes its time, and then copies; at most kMostLateCopies.
void submit_late_copies(Stream& stream, std::span<const LateCopy> copies);

/// A kernel that ends when the word at `begun`, on the device, is not 0, or some seconds have passed, and writes it to `found`.
void submit_until_begun(Stream& stream, DevicePointer begun, DevicePointer found);
/// A kernel that writes 1 to `begun`, and waits for those before it only then.
void submit_begun(Stream& stream, DevicePointer begun);

}  // namespace headroom::cuda
