#pragma once

/// Paths of the source tree and of the programs built with the tests. Each test program has its own source that
/// defines the paths it was given (cmake/headroom_test_paths.cmake), so that the objects of tests are equal in
/// every clone.
namespace headroom {

extern const char* const kSourceDir;       ///< the repository
extern const char* const kHeadroomBinary;  ///< the program `headroom`
/// path of tests/spin_bench.cpp's program without the suffix for its slowdown in percent
extern const char* const kSpinBench;
extern const char* const kFakeClock;   ///< tests/fake/clock.c as a library to preload
extern const char* const kFakeKiller;  ///< tests/fake/killer.c as a library to preload
extern const char* const kFakeNvml;    ///< tests/fake/nvml.c as a library
/// path of tests/fake/versioned_library.c as a library, without its version and suffix: 90100.so
extern const char* const kFakeLibrary;
extern const char* const kSurveyLibrary;  ///< the program of tests/fake/survey_library.cpp

}  // namespace headroom
