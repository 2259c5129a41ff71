# The Python package for its tests (python/CMakeLists.txt; `make wheel` packs it). It is built with the tests, where the
# virtual environment of scripts/fetch_python.sh is there; without it one test says so and is skipped. Sets
# HEADROOM_PYTHON to that environment's interpreter, or to nothing.

set(HEADROOM_PYTHON "")
if(HEADROOM_TESTS AND NOT HEADROOM_ASAN)
  execute_process(COMMAND ${PROJECT_SOURCE_DIR}/scripts/fetch_python.sh --where
                  OUTPUT_VARIABLE environment OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
  if(EXISTS ${environment}/requirements.txt)  # written last
    set(HEADROOM_PYTHON ${environment}/bin/python)
    set(Python_EXECUTABLE ${HEADROOM_PYTHON})
    add_subdirectory(python)
  else()
    message(STATUS "Python package: not built: scripts/bootstrap.sh test installs what it is built with")
  endif()
endif()
