# Fuzz targets, for -DHEADROOM_FUZZ=ON with clang:
#   safetensors_fuzz    run it as: safetensors_fuzz NEW_INPUTS tests/fuzz/safetensors -runs=1000000 -max_len=4096
#   json_fuzz           run it as: json_fuzz NEW_INPUTS tests/fuzz/json -runs=1000000 -max_len=4096
#   read_image_fuzz     run it as: read_image_fuzz NEW_INPUTS tests/goldens/media/pictures -runs=1000000 -max_len=4096
#   y4m_fuzz            run it as: y4m_fuzz NEW_INPUTS tests/fuzz/y4m -runs=1000000 -max_len=4096
# Sources are compiled anew rather than linked from the layers, so that they carry the fuzzer's coverage counters.
if(NOT CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  message(FATAL_ERROR "HEADROOM_FUZZ needs clang (-DCMAKE_CXX_COMPILER=clang++), not ${CMAKE_CXX_COMPILER_ID}")
endif()

set(fuzz_flags -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer)

# headroom_fuzz(NAME LIBRARIES libraries... SOURCES sources...), below src/
function(headroom_fuzz name)
  cmake_parse_arguments(PARSE_ARGV 1 FUZZ "" "" "LIBRARIES;SOURCES")
  list(TRANSFORM FUZZ_SOURCES PREPEND src/)
  add_executable(${name} ${FUZZ_SOURCES})
  target_compile_options(${name} PRIVATE ${fuzz_flags})
  target_link_options(${name} PRIVATE ${fuzz_flags})
  target_link_libraries(${name} PRIVATE headroom_options fmt::fmt ${FUZZ_LIBRARIES})
endfunction()

headroom_fuzz(safetensors_fuzz LIBRARIES nlohmann_json::nlohmann_json
  SOURCES base/dtype.cpp base/error.cpp base/file.cpp base/json.cpp base/json_events.cpp base/printable.cpp base/shape.cpp
          base/utf8.cpp io/safetensors.cpp io/safetensors_fuzz.cpp)
headroom_fuzz(json_fuzz LIBRARIES nlohmann_json::nlohmann_json
  SOURCES base/error.cpp base/file.cpp base/json.cpp base/json_events.cpp base/printable.cpp base/utf8.cpp
          base/json_fuzz.cpp)
headroom_fuzz(read_image_fuzz LIBRARIES PNG::PNG ZLIB::ZLIB JPEG::JPEG
  SOURCES base/error.cpp base/file.cpp base/printable.cpp base/utf8.cpp media/image.cpp media/jpeg.cpp media/latin1.cpp
          media/orientation.cpp media/png.cpp media/read_image.cpp media/read_image_fuzz.cpp
          media/zlib_stream.cpp)
headroom_fuzz(y4m_fuzz LIBRARIES PkgConfig::HWY
  SOURCES base/error.cpp base/file.cpp base/printable.cpp base/utf8.cpp media/byte_stream.cpp media/image.cpp
          media/video_limits.cpp media/y4m.cpp media/yuv.cpp media/y4m_fuzz.cpp)
