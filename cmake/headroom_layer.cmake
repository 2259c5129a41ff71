# headroom_layer(name [APART] DEPENDS targets... [PRIVATE targets...]) makes, from every source below src/<name>:
#   headroom_<name>       the layer's static library (all sources but main.cpp and the kinds below)
#                         a layer that is APART is compiled source by source, but for the kernels for CPUs
#                         (headroom_compile_kernels_together); others several at a time (headroom_compile_together)
#   <name>_tests          with HEADROOM_TESTS its unit tests (*_test.cpp), registered with CTest one by one under the label `unit`
#   <name>_bench          its benchmarks (*_bench.cpp, Google Benchmark)
#   <name>_header_check   every header of the layer that no source of its own includes first compiled alone, with no more than the
#                         layer may see
#   headroom              the program, where the layer has a main.cpp
# DEPENDS may name only layers that exist already, so that the folders keep one order. What stands behind PRIVATE the
# layer and its tests use, and nothing that depends on it sees. unit_tests builds all unit tests. HEADROOM_TESTS is
# known when the first layer is added.

if(HEADROOM_TESTS)
  include(GoogleTest)
  add_custom_target(unit_tests)
endif()

function(headroom_layer name)
  cmake_parse_arguments(PARSE_ARGV 1 LAYER "APART" "" "DEPENDS;PRIVATE")
  set(root ${PROJECT_SOURCE_DIR}/src/${name})
  set(seen ${name})
  foreach(dependency IN LISTS LAYER_DEPENDS)
    if(dependency MATCHES "^headroom_(.+)$")
      list(APPEND seen ${CMAKE_MATCH_1})
      if(NOT TARGET ${dependency})
        message(FATAL_ERROR "layer ${name} depends on ${dependency}, which does not come before it")
      endif()
    endif()
  endforeach()
  list(JOIN seen " " seen)
  set_property(GLOBAL APPEND PROPERTY HEADROOM_LAYERS "${seen}")

  headroom_glob_sources(sources ${root})
  set(tests ${sources})
  set(benches ${sources})
  set(main ${sources})
  list(FILTER sources EXCLUDE REGEX "(_test|_bench|_fuzz|/main)\\.(cpp|cu)$")
  list(FILTER tests INCLUDE REGEX "_test\\.(cpp|cu)$")
  list(FILTER benches INCLUDE REGEX "_bench\\.(cpp|cu)$")
  list(FILTER main INCLUDE REGEX "/main\\.cpp$")

  if(sources)
    add_library(headroom_${name} STATIC ${sources})
    target_link_libraries(headroom_${name} PUBLIC headroom_options ${LAYER_DEPENDS} PRIVATE ${LAYER_PRIVATE})
  else()
    add_library(headroom_${name} INTERFACE)
    target_link_libraries(headroom_${name} INTERFACE headroom_options ${LAYER_DEPENDS})
  endif()

  if(tests AND HEADROOM_TESTS)
    add_executable(${name}_tests ${tests})
    target_link_libraries(${name}_tests PRIVATE headroom_${name} ${LAYER_PRIVATE} GTest::gtest GTest::gmock GTest::gtest_main)
    headroom_test_paths(${name}_tests kSourceDir ${PROJECT_SOURCE_DIR})
    # a quarter less to compile, nothing more to run; under the sanitizers half
    target_compile_options(${name}_tests PRIVATE $<$<CONFIG:Release>:-O1> $<$<BOOL:${HEADROOM_ASAN}>:-O0>)
    gtest_discover_tests(${name}_tests TEST_PREFIX "${name}." DISCOVERY_TIMEOUT 60 PROPERTIES LABELS unit ENVIRONMENT "GOMP_SPINCOUNT=20000")
    add_dependencies(unit_tests ${name}_tests)
  endif()

  if(NOT LAYER_APART)
    headroom_compile_together(headroom_${name} ${name}_tests)
  endif()

  if(benches)
    find_package(benchmark REQUIRED)
    add_executable(${name}_bench ${benches})
    target_link_libraries(${name}_bench PRIVATE headroom_${name} benchmark::benchmark benchmark::benchmark_main)
  endif()

  if(main)
    add_executable(headroom ${main})
    target_link_libraries(headroom PRIVATE headroom_${name})
  endif()

  headroom_header_check(${name} ${root})
endfunction()

# Compiles the C++ sources of those of the targets that are there several at a time, which halves what that costs: most
# of it are headers. So a name in an anonymous namespace is its layer's, not its file's. HEADROOM_UNITY=OFF compiles
# each source by itself, which editors, linters and a search for missing includes want.
function(headroom_compile_together)
  foreach(target IN LISTS ARGV)
    if(TARGET ${target})
      set_target_properties(${target} PROPERTIES UNITY_BUILD ${HEADROOM_UNITY} UNITY_BUILD_BATCH_SIZE 8)
    endif()
  endforeach()
endfunction()

# Twice as many sources at a time, for layers whose sources have few names in common.
function(headroom_compile_more_together)
  foreach(layer IN LISTS ARGV)
    set_target_properties(headroom_${layer} PROPERTIES UNITY_BUILD_BATCH_SIZE 16)
  endforeach()
endfunction()

# Compiles the sources of these layers with -O1 in a release.
function(headroom_optimize_less)
  foreach(layer IN LISTS ARGV)
    target_compile_options(headroom_${layer} PRIVATE $<$<CONFIG:Release>:-O1>)
  endforeach()
endfunction()

# Puts the sources into groups of `size` for a target that has UNITY_BUILD_MODE GROUP; the groups' names begin with
# `prefix`.
function(headroom_group_sources prefix size)
  set(count 0)
  foreach(source IN LISTS ARGN)
    math(EXPR group "${count} / ${size}")
    math(EXPR count "${count} + 1")
    set_source_files_properties(${source} PROPERTIES UNITY_GROUP ${prefix}_${group})
  endforeach()
endfunction()

# Compiles the tests of a layer that is APART several at a time. x_test.cpp and x_cuda_test.cpp may have the same names:
# tests that need CUDA are compiled apart from the others.
function(headroom_compile_tests_together target)
  set_target_properties(${target} PROPERTIES UNITY_BUILD ${HEADROOM_UNITY} UNITY_BUILD_MODE GROUP)
  get_target_property(tests ${target} SOURCES)
  list(FILTER tests INCLUDE REGEX "_test\\.cpp$")
  set(cuda_tests ${tests})
  list(FILTER tests EXCLUDE REGEX "_cuda_test\\.cpp$")
  list(FILTER cuda_tests INCLUDE REGEX "_cuda_test\\.cpp$")
  headroom_group_sources(tests 8 ${tests})
  headroom_group_sources(cuda_tests 8 ${cuda_tests})
endfunction()

# Compiles the kernels for CPUs several at a time, in three kinds of groups: plain sources, those for AMX, and those
# that Highway compiles for each vector unit. A name may be used again in another kind, and in kernels for GPUs, which
# are compiled one by one. `alone` names a source that is in no group.
function(headroom_compile_kernels_together target alone)
  if(NOT HEADROOM_UNITY)
    return()
  endif()
  get_target_property(sources ${target} SOURCES)
  list(FILTER sources INCLUDE REGEX "\\.cpp$")
  list(FILTER sources EXCLUDE REGEX "(/cuda_[^/]*|_cuda)\\.cpp$")
  list(FILTER sources EXCLUDE REGEX "/${alone}$")
  set(amx ${sources})
  list(FILTER amx INCLUDE REGEX "_amx\\.cpp$")
  set(plain)
  set(highway)
  foreach(source IN LISTS sources)
    file(STRINGS ${source} foreach_target LIMIT_COUNT 1 REGEX "^#include \"hwy/foreach_target.h\"")
    if(foreach_target)
      list(APPEND highway ${source})
    elseif(NOT source IN_LIST amx)
      list(APPEND plain ${source})
    endif()
  endforeach()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
  headroom_group_sources(plain 12 ${plain})
  headroom_group_sources(amx 8 ${amx})
  headroom_compile_highway_together(${target} 4 ${highway})
endfunction()

# Compiles sources that include hwy/foreach_target.h in groups of `size`: one source includes a group, and itself again
# for each vector unit. So the headers, Highway's among them, are compiled once for each unit and group, not for each
# source.
function(headroom_compile_highway_together target size)
  set(left ${ARGN})
  list(LENGTH left count)
  set(number 0)
  while(count GREATER 0)
    list(SUBLIST left 0 ${size} group)
    list(REMOVE_ITEM left ${group})
    list(LENGTH left count)
    set(name generated/${target}_highway_${number}.cpp)
    math(EXPR number "${number} + 1")
    set(includes)
    foreach(source IN LISTS group)
      file(RELATIVE_PATH path ${PROJECT_SOURCE_DIR}/src ${source})
      string(APPEND includes "#include \"${path}\"\n")
    endforeach()
    # Each of the sources names itself as the one to include again, in vain: foreach_target.h is included once.
    set(again "#undef HWY_TARGET_INCLUDE\n#define HWY_TARGET_INCLUDE \"${name}\"\n")
    file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/${name} @ONLY CONTENT
         "#include \"kernels/core/simd_targets.hpp\"\n${again}#include \"hwy/foreach_target.h\"\n${includes}${again}")
    set_source_files_properties(${group} PROPERTIES HEADER_FILE_ONLY ON)
    target_sources(${target} PRIVATE ${PROJECT_BINARY_DIR}/${name})
  endwhile()
  target_include_directories(${target} PRIVATE ${PROJECT_BINARY_DIR})
endfunction()

# The C++ and, where CUDA is on, CUDA sources below `root`: what needs CUDA or stands in for it is chosen here.
function(headroom_glob_sources result root)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${root}/*.cpp)
  if(HEADROOM_WITH_CUDA)
    file(GLOB_RECURSE cuda_sources CONFIGURE_DEPENDS ${root}/*.cu)
    list(APPEND sources ${cuda_sources})
    list(FILTER sources EXCLUDE REGEX "/cuda_([^/]*_)?stub\\.cpp$")
  else()
    set(stubs ${sources})
    list(FILTER stubs INCLUDE REGEX "/cuda_([^/]*_)?stub\\.cpp$")
    list(FILTER sources EXCLUDE REGEX "/(cuda_[^/]*|[^/]*_cuda(_test)?)\\.cpp$")
    list(APPEND sources ${stubs})
  endif()
  set(${result} ${sources} PARENT_SCOPE)
endfunction()

# One source for each header that includes it first, and again, so that a missing include or guard fails the build. A
# header whose own source (of the same name) includes it first needs none but #pragma once, which is looked for here.
function(headroom_header_check name root)
  file(GLOB_RECURSE headers RELATIVE ${PROJECT_SOURCE_DIR}/src CONFIGURE_DEPENDS ${root}/*.hpp)
  if(NOT headers)
    return()
  endif()
  set(sources)
  foreach(header IN LISTS headers)
    file(STRINGS ${PROJECT_SOURCE_DIR}/src/${header} first_line LIMIT_COUNT 1)
    if(NOT first_line STREQUAL "#pragma once" AND NOT header MATCHES "_inl\\.hpp$")
      message(FATAL_ERROR "src/${header} begins with '${first_line}', expected #pragma once")
    endif()
    string(REGEX REPLACE "\\.hpp$" ".cpp" own ${PROJECT_SOURCE_DIR}/src/${header})
    if(EXISTS ${own})
      file(STRINGS ${own} first_include LIMIT_COUNT 1 REGEX "^#include")
      if(first_include STREQUAL "#include \"${header}\"")
        continue()
      endif()
    endif()
    set(source ${PROJECT_BINARY_DIR}/header_check/${header}.cpp)
    file(CONFIGURE OUTPUT ${source} CONTENT "#include \"${header}\"\n#include \"${header}\"\n")
    list(APPEND sources ${source})
  endforeach()
  if(NOT sources)
    return()
  endif()
  add_library(${name}_header_check OBJECT ${sources})
  target_link_libraries(${name}_header_check PRIVATE headroom_${name})
  target_compile_options(${name}_header_check PRIVATE -O0)  # only the front end has anything to say
endfunction()

# Writes what each layer names as seen, one a line, lowest layer first: "run plan passes models io".
function(headroom_write_layers path)
  get_property(layers GLOBAL PROPERTY HEADROOM_LAYERS)
  list(JOIN layers "\n" text)
  file(CONFIGURE OUTPUT ${path} CONTENT "${text}\n")
endfunction()
