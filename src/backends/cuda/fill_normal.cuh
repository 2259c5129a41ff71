#pragma once

#include <cstdint>

namespace headroom::cuda {

/// The types in which the device can draw random numbers.
enum class RealType { kF64, kF32, kF16, kBf16 };

/// Writes elements [0, count) of base/tensors/random.hpp's NormalStream to `device`, which is aligned to 16 bytes.
/// The caller checks for launch errors. `stream` is a cudaStream_t.
void fill_normal(void* stream, void* device, RealType type, std::uint64_t count, std::uint64_t seed,
                 std::uint64_t number, float mean, float deviation);

}  // namespace headroom::cuda
