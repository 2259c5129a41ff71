# libheadroom: the layers up to `api` as one shared library, of which src/api/headroom.hpp is the interface and nothing
# else is to be seen. It is linked from the objects that the program is made of.

set_property(SOURCE ${PROJECT_SOURCE_DIR}/src/api/version.cpp APPEND
             PROPERTY COMPILE_DEFINITIONS HEADROOM_VERSION="${PROJECT_VERSION}")

set(exports ${PROJECT_SOURCE_DIR}/cmake/libheadroom.map)
add_library(libheadroom SHARED $<TARGET_OBJECTS:headroom_api>)
target_link_libraries(libheadroom PRIVATE headroom_api)
target_link_options(libheadroom PRIVATE -Wl,--no-undefined -Wl,--version-script=${exports})
# Before 1.0 what changes the interface changes the second number.
set_target_properties(
  libheadroom PROPERTIES OUTPUT_NAME headroom EXPORT_NAME headroom LINKER_LANGUAGE CXX LINK_DEPENDS ${exports}
                         VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
