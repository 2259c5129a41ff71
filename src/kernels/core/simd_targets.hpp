#pragma once

#include <string>

// The vector units that Highway compiles for. Each one compiles every kernel again, so only those of x86 that
// matter are kept: AVX-512 with and without bf16 instructions, AVX2, and one that runs everywhere. Include this
// before any header of Highway.
//
// Highway 1.0 has no target for AVX512_BF16. Its AVX3_DL (Ice Lake and later) is used for it: simd_targets.cpp
// takes that target out of dispatch on the few CPUs that have the one and not the other.
#define HWY_WANT_AVX3_DL
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4)

namespace headroom {

/// The vector unit that dispatch picks on this machine: "highway:avx3_bf16", "highway:avx3", "highway:avx2",
/// "highway:scalar".
[[nodiscard]] std::string highway_target_name();

}  // namespace headroom
