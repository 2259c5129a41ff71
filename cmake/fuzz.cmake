# Fuzz targets, for -DHEADROOM_FUZZ=ON with clang:
#   safetensors_fuzz    run it as: safetensors_fuzz NEW_INPUTS tests/fuzz/safetensors -runs=1000000 -max_len=4096
# Sources are compiled anew rather than linked from the layers, so that they carry the fuzzer's coverage counters.
if(NOT CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  message(FATAL_ERROR "HEADROOM_FUZZ needs clang (-DCMAKE_CXX_COMPILER=clang++), not ${CMAKE_CXX_COMPILER_ID}")
endif()

set(fuzz_flags -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer)

add_executable(safetensors_fuzz
  src/base/dtype.cpp src/base/error.cpp src/base/file.cpp src/base/json.cpp src/base/shape.cpp src/base/utf8.cpp
  src/io/safetensors.cpp src/io/safetensors_fuzz.cpp)
target_compile_options(safetensors_fuzz PRIVATE ${fuzz_flags})
target_link_options(safetensors_fuzz PRIVATE ${fuzz_flags})
target_link_libraries(safetensors_fuzz PRIVATE headroom_options fmt::fmt nlohmann_json::nlohmann_json)
