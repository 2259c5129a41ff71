# headroom_embed(target NAME=FILE...) makes files part of a library: std::string_view headroom::NAME() gives the bytes
# of FILE. The functions are declared in a header of the target's own. Nothing is compressed, so nothing is unpacked.

function(headroom_embed target)
  set(source ${PROJECT_BINARY_DIR}/generated/${target}_assets.cpp)
  set(text "#include <cstddef>\n#include <string_view>\n\n")
  set(files)
  foreach(entry IN LISTS ARGN)
    string(REGEX MATCH "^([a-z_0-9]+)=(.+)$" matched "${entry}")
    set(name ${CMAKE_MATCH_1})
    get_filename_component(file ${CMAKE_MATCH_2} ABSOLUTE)
    list(APPEND files ${file})
    string(APPEND text
      "__asm__(\n"
      "    \".section .rodata\\n\"\n"
      "    \".hidden hr_asset_${name}\\n.global hr_asset_${name}\\nhr_asset_${name}:\\n\"\n"
      "    \".incbin \\\"${file}\\\"\\n\"\n"
      "    \".hidden hr_asset_${name}_end\\n.global hr_asset_${name}_end\\nhr_asset_${name}_end:\\n.byte 0\\n.previous\\n\");\n"
      "extern \"C\" {\nextern const char hr_asset_${name}[];\nextern const char hr_asset_${name}_end[];\n}\n"
      "namespace headroom {\nstd::string_view ${name}();\n"
      "std::string_view ${name}() {\n"
      "  return {hr_asset_${name}, static_cast<std::size_t>(hr_asset_${name}_end - hr_asset_${name})};\n}\n"
      "}  // namespace headroom\n")
  endforeach()
  file(CONFIGURE OUTPUT ${source} CONTENT "${text}" @ONLY)
  # By itself, since sources that are compiled several at a time forget what they depend on.
  set_source_files_properties(${source} PROPERTIES OBJECT_DEPENDS "${files}" SKIP_UNITY_BUILD_INCLUSION ON)
  target_sources(${target} PRIVATE ${source})
endfunction()
