#pragma once

#include <string>

// Which vector units Highway compiles for. Each one compiles every kernel again, so of x86's we keep those that matter:
// AVX-512 (AVX3), AVX2, and one that runs everywhere. Include this before any header of Highway.
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL)

namespace headroom {

/// The vector unit that dispatch picks on this machine: "highway:avx3", "highway:avx2", "highway:scalar".
[[nodiscard]] std::string highway_target_name();

}  // namespace headroom
