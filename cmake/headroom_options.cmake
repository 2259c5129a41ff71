# headroom_options: how every target of the project is compiled.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)

# Programs look for shared libraries in the folder lib beside their own, where scripts/bundle.sh puts them; the older
# tag, because the newer does not hold for the libraries of libraries.
set(CMAKE_BUILD_RPATH "\$ORIGIN/../lib")
add_link_options(-Wl,--disable-new-dtags)

if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Release unless given" FORCE)
endif()

# With the base directory set, a second clone of the same sources finds the objects of the first one: no object names
# the folder of its clone (-fmacro-prefix-map, below).
find_program(CCACHE ccache)
if(CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER
      ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} CCACHE_NOHASHDIR=1 ${CCACHE})
endif()

# Line numbers for profilers of kernels, a half of the bytes of GPU code, are for debugging;
# -DCMAKE_CUDA_FLAGS=-lineinfo adds them.
add_library(headroom_options INTERFACE)
target_include_directories(headroom_options INTERFACE ${PROJECT_SOURCE_DIR}/src)
target_compile_options(
  headroom_options INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Wall;-Wextra;-Wpedantic;-Wshadow;-Wconversion;-Werror>
                             $<$<COMPILE_LANGUAGE:CUDA>:$<$<CONFIG:Debug>:-lineinfo>;-Werror=all-warnings;-Xcompiler=-Wall,-Wextra,-Werror>)
# Where nvcc compiles, {fmt} 9 takes constexpr away from some of its functions, and calls them from others that keep it.
target_compile_definitions(headroom_options INTERFACE $<$<COMPILE_LANGUAGE:CUDA>:FMT_USE_CONSTEXPR=1>)
target_compile_options(headroom_options INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-fmacro-prefix-map=${PROJECT_SOURCE_DIR}/=>)
if(CMAKE_CXX_COMPILER_ID MATCHES Clang)
  target_compile_options(headroom_options INTERFACE -Wno-sign-conversion)  # which g++ leaves out of -Wconversion
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # Fires on std::string concatenation in correct code: GCC bug 105651, mended in 13.
  target_compile_options(headroom_options INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Wno-restrict>)
endif()
if(HEADROOM_VERIFY_PASSES)
  target_compile_definitions(headroom_options INTERFACE HEADROOM_VERIFY_PASSES)
endif()
if(HEADROOM_ASAN)
  # Instrumented code gives GCC false alarms about uninitialized members (its manual says so); builds without it have
  # the warning.
  target_compile_options(headroom_options INTERFACE -fsanitize=address,undefined -fno-sanitize-recover=all
                                                    -fno-omit-frame-pointer $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)
  target_link_options(headroom_options INTERFACE -fsanitize=address,undefined)
endif()
