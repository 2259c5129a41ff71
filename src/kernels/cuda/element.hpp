#pragma once

#include <cstdint>

namespace headroom::cuda {

/// The dtypes that kernels written here store results in; arithmetic is in f32.
enum class Element : std::uint8_t { kF32, kBf16, kF16 };

}  // namespace headroom::cuda
