#pragma once

/// Where tests find the source tree and the programs that were built with them. Each test program has a source of its own
/// that defines those it was given (cmake/headroom_test_paths.cmake): so the objects of tests are the same in every clone.
namespace headroom {

extern const char* const kSourceDir;       ///< the repository
extern const char* const kHeadroomBinary;  ///< the program `headroom`
extern const char* const kSpinBench;       ///< tests/spin_bench.cpp, less its slowdown in percent
extern const char* const kFakeClock;       ///< tests/fake/clock.c as a library to preload
extern const char* const kFakeNvml;        ///< tests/fake/nvml.c as a library

}  // namespace headroom
