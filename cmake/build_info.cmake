# Gives src/measure/probes/machine.cpp, and nothing else, the macros HEADROOM_VERSION, HEADROOM_BUILD_TYPE and
# HEADROOM_GIT_REVISION. The revision is that of build time, not of configure time: every build describes the checkout
# and rewrites the header below if, and only if, something changed.
#
# The file is also the script that does so: cmake -DSOURCE=... -DHEADER=... -DVERSION=... -DBUILD_TYPE=... -P
# build_info.cmake

if(CMAKE_SCRIPT_MODE_FILE)
  # A checkout that belongs to someone else (mounted into a container) is described nonetheless.
  execute_process(
    COMMAND git -c safe.directory=${SOURCE} -C ${SOURCE} describe --always --dirty --abbrev=12
    OUTPUT_VARIABLE revision OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE status)
  if(NOT status EQUAL 0)
    set(revision unknown)  # a source archive, or a repository without commits
  endif()
  file(CONFIGURE OUTPUT ${HEADER} CONTENT [[
#define HEADROOM_VERSION "@VERSION@"
#define HEADROOM_BUILD_TYPE "@BUILD_TYPE@"
#define HEADROOM_GIT_REVISION "@revision@"
]] @ONLY)
  return()
endif()

set(build_info_header ${PROJECT_BINARY_DIR}/generated/build_info.hpp)
add_custom_target(
  build_info
  COMMAND ${CMAKE_COMMAND} -DSOURCE=${PROJECT_SOURCE_DIR} -DHEADER=${build_info_header} -DVERSION=${PROJECT_VERSION}
          -DBUILD_TYPE=${CMAKE_BUILD_TYPE} -P ${CMAKE_CURRENT_LIST_FILE}
  BYPRODUCTS ${build_info_header}
  COMMENT "Describing the build"
  VERBATIM)
add_dependencies(headroom_measure build_info)
set_property(SOURCE ${PROJECT_SOURCE_DIR}/src/measure/probes/machine.cpp APPEND
             PROPERTY COMPILE_OPTIONS -include ${build_info_header})
