# HEADROOM_VECTOR_UNITS: ALL compiles each kernel for AVX-512 with and without bf16 instructions, for AVX2 and for every
# other CPU; the program takes the best that a CPU has. NATIVE compiles them for the one that it would take on this
# machine, which costs a third, and the program refuses CPUs that lack it (src/kernels/core/simd_targets.hpp). Sets
# HEADROOM_VECTOR_UNIT_DEFINITION, which is empty for ALL.

set_property(CACHE HEADROOM_VECTOR_UNITS PROPERTY STRINGS ALL NATIVE)
set(HEADROOM_VECTOR_UNIT_DEFINITION)

if(HEADROOM_VECTOR_UNITS STREQUAL "NATIVE")
  if(HEADROOM_TESTS)
    message(FATAL_ERROR "HEADROOM_TESTS is ON, and the tests compare the kernels of all vector units; expected HEADROOM_VECTOR_UNITS=ALL")
  endif()
  # The program's own choice, asked each time: the build folder may have come from another machine.
  try_run(
    exit_code compiles
    SOURCE_FROM_CONTENT unit.cpp [[
#include <cstdio>
#include "kernels/core/simd_targets.hpp"
int main() { std::printf("%s", headroom::highway_target_name().c_str()); }
]]
    SOURCES ${PROJECT_SOURCE_DIR}/src/kernels/core/simd_targets.cpp
    NO_CACHE
    CMAKE_FLAGS -DINCLUDE_DIRECTORIES=${PROJECT_SOURCE_DIR}/src
    LINK_LIBRARIES PkgConfig::HWY
    COMPILE_OUTPUT_VARIABLE log
    RUN_OUTPUT_VARIABLE unit
    CXX_STANDARD 20
    CXX_STANDARD_REQUIRED ON)
  if(NOT compiles OR NOT exit_code EQUAL 0 OR NOT unit MATCHES "^highway:([a-z0-9_]+)$")
    message(FATAL_ERROR "this machine's vector unit was not found; HEADROOM_VECTOR_UNITS=ALL compiles for all of them: ${unit}${log}")
  endif()
  string(TOUPPER "HWY_${CMAKE_MATCH_1}" unit)
  string(REPLACE HWY_AVX3_BF16 HWY_AVX3_DL unit ${unit})
  set(HEADROOM_VECTOR_UNIT_DEFINITION HEADROOM_VECTOR_UNIT=${unit})
  message(STATUS "Kernels for CPUs: ${CMAKE_MATCH_1} alone, for this machine")
elseif(NOT HEADROOM_VECTOR_UNITS STREQUAL "ALL")
  message(FATAL_ERROR "HEADROOM_VECTOR_UNITS is '${HEADROOM_VECTOR_UNITS}'; expected ALL or NATIVE")
endif()
