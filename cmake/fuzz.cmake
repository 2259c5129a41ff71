# Fuzz targets, for -DHEADROOM_FUZZ=ON with clang:
#   safetensors_fuzz    run it as: safetensors_fuzz NEW_INPUTS tests/fuzz/safetensors -runs=1000000 -max_len=4096
#   gguf_fuzz           run it as: gguf_fuzz NEW_INPUTS tests/fuzz/gguf -runs=1000000 -max_len=4096
#   single_file_fuzz    run it as: single_file_fuzz NEW_INPUTS tests/fuzz/single_files -runs=200000 -max_len=64
#   json_fuzz           run it as: json_fuzz NEW_INPUTS tests/fuzz/json -runs=1000000 -max_len=4096
#   read_image_fuzz     run it as: read_image_fuzz NEW_INPUTS tests/goldens/media/pictures -runs=1000000 -max_len=4096
#   y4m_fuzz            run it as: y4m_fuzz NEW_INPUTS tests/fuzz/y4m -runs=1000000 -max_len=4096
#   config_fuzz         run it as: config_fuzz NEW_INPUTS tests/fuzz/configs -runs=100000 -max_len=4096
#   request_fuzz        run it as: request_fuzz NEW_INPUTS tests/fuzz/requests -runs=100000 -max_len=4096
#   trace_fuzz          run it as: trace_fuzz NEW_INPUTS tests/fuzz/traces -runs=1000000 -max_len=4096
# Sources are compiled anew rather than linked from the layers, so that they carry the fuzzer's coverage counters.
if(NOT CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  message(FATAL_ERROR "HEADROOM_FUZZ needs clang (-DCMAKE_CXX_COMPILER=clang++), not ${CMAKE_CXX_COMPILER_ID}")
endif()

# Samplers and schedules, but for what is a graph.
file(GLOB schedules RELATIVE ${PROJECT_SOURCE_DIR}/src CONFIGURE_DEPENDS src/pipelines/schedules/*schedule*.cpp src/pipelines/schedules/*sampler*.cpp
     src/pipelines/schedules/respacing.cpp)
list(FILTER schedules EXCLUDE REGEX "(_test|_fuzz|/sampler_update|/step_schedule|/calibrate.*)\\.cpp$")
file(GLOB_RECURSE base RELATIVE ${PROJECT_SOURCE_DIR}/src CONFIGURE_DEPENDS src/base/*.cpp)
list(FILTER base EXCLUDE REGEX "(_test|_fuzz|/pcre2)\\.cpp$")  # no parser here has regular expressions
# Graphs and all models, which say what a single file must hold.
file(GLOB_RECURSE networks RELATIVE ${PROJECT_SOURCE_DIR}/src CONFIGURE_DEPENDS src/ir/*.cpp src/models/*.cpp)
list(FILTER networks EXCLUDE REGEX "_test\\.cpp$")
set(fuzzed
    ${base}
    io/checkpoint.cpp io/foreign_quantization.cpp io/gguf.cpp io/lora_name.cpp io/network_family.cpp io/safetensors.cpp io/tensor_source.cpp
    io/weights_files.cpp
    media/byte_stream.cpp media/image.cpp media/jpeg.cpp media/latin1.cpp media/orientation.cpp media/png.cpp media/read_image.cpp media/zlib_stream.cpp
    media/video/video_limits.cpp media/video/y4m.cpp media/video/yuv.cpp
    ${networks}
    run/component.cpp run/hub_cache.cpp run/model_family.cpp run/model_folders.cpp run/single_file.cpp
    ${schedules}
    cli/images/image_job.cpp doctor/trace/event_reader.cpp doctor/trace/trace_events.cpp)
list(TRANSFORM fuzzed PREPEND src/)
add_library(headroom_fuzzed STATIC ${fuzzed})
set_target_properties(headroom_fuzzed PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
foreach(source IN LISTS fuzzed)  # the sources of a layer together; one that Highway compiles several times by itself
  if(NOT source MATCHES "/yuv\\.cpp$")
    string(REGEX REPLACE "^src/([a-z]+)/.*" "\\1" layer ${source})
    set_source_files_properties(${source} PROPERTIES UNITY_GROUP ${layer})
  endif()
endforeach()
target_compile_options(headroom_fuzzed PUBLIC -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer)
target_link_options(headroom_fuzzed PUBLIC -fsanitize=fuzzer,address,undefined)
# After headroom_options: sources that are compiled together meet in unnamed namespaces.
add_library(fuzz_options INTERFACE)
target_compile_options(fuzz_options INTERFACE -Wno-shadow)
target_link_libraries(headroom_fuzzed PUBLIC headroom_options fuzz_options fmt::fmt nlohmann_json::nlohmann_json PNG::PNG ZLIB::ZLIB JPEG::JPEG PkgConfig::HWY)

foreach(target io/gguf io/safetensors run/single_file base/text/json media/read_image media/video/y4m pipelines/config cli/images/request
        doctor/trace/trace)
  cmake_path(GET target FILENAME name)
  add_executable(${name}_fuzz src/${target}_fuzz.cpp)
  target_link_libraries(${name}_fuzz PRIVATE headroom_fuzzed)
endforeach()
target_compile_definitions(single_file_fuzz PRIVATE HEADROOM_GOLDENS="${PROJECT_SOURCE_DIR}/tests/goldens/single_files")
