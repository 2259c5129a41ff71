#pragma once

#include <cstdint>

namespace headroom::cuda {

/// What random numbers can be drawn as on the device.
enum class RealType { kF64, kF32, kF16, kBf16 };

/// Elements [0, count) of base/tensors/random.hpp's NormalStream to `device`, which is aligned to 16 bytes. The caller checks
/// for errors of the launch. `stream` is a cudaStream_t.
void fill_normal(void* stream, void* device, RealType type, std::uint64_t count, std::uint64_t seed,
                 std::uint64_t number, float mean, float deviation);

}  // namespace headroom::cuda
