#pragma once

#include <string>
#include <vector>

// The vector units that Highway compiles for. Each one compiles every kernel again, so only those of x86 that
// matter are kept: AVX-512 with and without bf16 instructions, AVX2, and one that runs everywhere. Include this
// before any header of Highway.
//
// Highway 1.0 has no target for AVX512_BF16. Its AVX3_DL (Ice Lake and later) is used for it: simd_targets.cpp
// takes that target out of dispatch on the few CPUs that have the one and not the other.
#define HWY_WANT_AVX3_DL
#ifdef HEADROOM_VECTOR_UNIT  // the only one, that of the machine that builds: cmake/headroom_vector_units.cmake
#define HWY_BASELINE_TARGETS HEADROOM_VECTOR_UNIT
#define HWY_COMPILE_ONLY_STATIC
#else
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4)
#endif

namespace headroom {

/// The vector unit that dispatch picks on this machine: "highway:avx3_bf16", "highway:avx3", "highway:avx2",
/// "highway:scalar". Empty if this CPU has none that the kernels were compiled for.
[[nodiscard]] std::string highway_target_name();

/// The vector units that the kernels were compiled for, best first: "avx3_bf16".
[[nodiscard]] std::vector<std::string> compiled_vector_units();

}  // namespace headroom
