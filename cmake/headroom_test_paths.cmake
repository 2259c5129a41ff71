# headroom_test_paths(target NAME VALUE...) defines paths of src/base/test_paths.hpp for a test program, in a source of
# its own: a compile definition would make the objects of every test differ from clone to clone, and no compiler cache
# would find them.
function(headroom_test_paths target)
  list(GET ARGN 0 first)  # a target may be given paths in several folders
  set(source ${CMAKE_CURRENT_BINARY_DIR}/test_paths/${target}_${first}.cpp)
  set(lines)
  while(ARGN)
    list(POP_FRONT ARGN name value)
    string(APPEND lines "const char* const headroom::${name} = \"${value}\";\n")
  endwhile()
  file(GENERATE OUTPUT ${source} CONTENT "#include \"base/test_paths.hpp\"\n\n${lines}" TARGET ${target})
  target_sources(${target} PRIVATE ${source})
  set_source_files_properties(${source} TARGET_DIRECTORY ${target} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
endfunction()
