# What `cmake --install` puts below a prefix: the program, the library with its header and CMake package, the models
# that ship, documents, examples, and the licences. Programs and libraries find each other by where they lie, so the
# tree may be moved.

include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
file(RELATIVE_PATH lib_from_bin /${CMAKE_INSTALL_BINDIR} /${CMAKE_INSTALL_LIBDIR})
set(package ${CMAKE_INSTALL_LIBDIR}/cmake/headroom)
set(doc ${CMAKE_INSTALL_DATADIR}/doc/headroom)  # the same below every prefix, as links between documents are

set_target_properties(headroom PROPERTIES INSTALL_RPATH "\$ORIGIN/${lib_from_bin}")
set_target_properties(libheadroom PROPERTIES INSTALL_RPATH "\$ORIGIN")
target_include_directories(libheadroom INTERFACE $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
target_compile_features(libheadroom INTERFACE cxx_std_20)

install(TARGETS headroom RUNTIME_DEPENDENCY_SET third_party COMPONENT headroom)
install(TARGETS libheadroom EXPORT headroom RUNTIME_DEPENDENCY_SET third_party COMPONENT headroom)
install(FILES src/api/headroom.hpp DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT headroom)
install(EXPORT headroom NAMESPACE headroom:: FILE headroom-config.cmake DESTINATION ${package} COMPONENT headroom)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/headroom-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/headroom-config-version.cmake DESTINATION ${package} COMPONENT headroom)
install(DIRECTORY models DESTINATION ${CMAKE_INSTALL_DATADIR}/headroom COMPONENT headroom)
install(FILES README.md CONTRIBUTING.md CHANGELOG.md LICENSE DESTINATION ${doc} COMPONENT headroom)
install(DIRECTORY docs examples DESTINATION ${doc} COMPONENT headroom PATTERN docs/site EXCLUDE)

set(cuda_include)
if(HEADROOM_WITH_CUDA)
  list(GET CUDAToolkit_INCLUDE_DIRS 0 cuda_include)
endif()
install(
  CODE "set(licences \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${doc}/third_party_licences.txt\")
message(STATUS \"Installing: \${licences}\")
execute_process(COMMAND ${PROJECT_SOURCE_DIR}/scripts/third_party_licences.sh ${cuda_include}
                OUTPUT_FILE \"\${licences}\" COMMAND_ERROR_IS_FATAL ANY)"
  COMPONENT headroom)

# The shared libraries of others, but for those that every Linux has: for a tree that must bring all it needs along, and
# only where asked for.
install(
  RUNTIME_DEPENDENCY_SET third_party
  PRE_EXCLUDE_REGEXES "^(linux-vdso|ld-linux.*|lib(c|m|dl|rt|pthread|gcc_s|stdc\\+\\+))\\.so"
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT third_party EXCLUDE_FROM_ALL
  RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT third_party EXCLUDE_FROM_ALL)
