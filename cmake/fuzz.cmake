# Fuzz targets, for -DHEADROOM_FUZZ=ON with clang:
#   safetensors_fuzz    run it as: safetensors_fuzz NEW_INPUTS tests/fuzz/safetensors -runs=1000000 -max_len=4096
#   json_fuzz           run it as: json_fuzz NEW_INPUTS tests/fuzz/json -runs=1000000 -max_len=4096
#   read_image_fuzz     run it as: read_image_fuzz NEW_INPUTS tests/goldens/media/pictures -runs=1000000 -max_len=4096
#   y4m_fuzz            run it as: y4m_fuzz NEW_INPUTS tests/fuzz/y4m -runs=1000000 -max_len=4096
#   config_fuzz         run it as: config_fuzz NEW_INPUTS tests/fuzz/configs -runs=100000 -max_len=4096
#   request_fuzz        run it as: request_fuzz NEW_INPUTS tests/fuzz/requests -runs=100000 -max_len=4096
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

# What reads files, and what reads JSON.
set(fuzzed_file base/error.cpp base/files/file.cpp base/files/leftovers.cpp base/text/printable.cpp base/files/truncated_file.cpp base/text/utf8.cpp)
set(fuzzed_json ${fuzzed_file} base/text/json.cpp base/text/json_events.cpp)
headroom_fuzz(safetensors_fuzz LIBRARIES nlohmann_json::nlohmann_json
  SOURCES ${fuzzed_json} base/tensors/dtype.cpp base/tensors/shape.cpp io/safetensors.cpp io/safetensors_fuzz.cpp)
headroom_fuzz(json_fuzz LIBRARIES nlohmann_json::nlohmann_json SOURCES ${fuzzed_json} base/text/json_fuzz.cpp)
headroom_fuzz(read_image_fuzz LIBRARIES PNG::PNG ZLIB::ZLIB JPEG::JPEG
  SOURCES ${fuzzed_file} media/image.cpp media/jpeg.cpp media/latin1.cpp media/orientation.cpp media/png.cpp media/read_image.cpp
          media/read_image_fuzz.cpp media/zlib_stream.cpp)
headroom_fuzz(y4m_fuzz LIBRARIES PkgConfig::HWY
  SOURCES ${fuzzed_file} media/byte_stream.cpp media/image.cpp media/video/video_limits.cpp media/video/y4m.cpp media/video/yuv.cpp
          media/video/y4m_fuzz.cpp)
# Samplers and schedules, but for what is a graph.
file(GLOB schedules RELATIVE ${PROJECT_SOURCE_DIR}/src CONFIGURE_DEPENDS src/pipelines/schedules/*schedule*.cpp src/pipelines/schedules/*sampler*.cpp
     src/pipelines/schedules/respacing.cpp)
list(FILTER schedules EXCLUDE REGEX "(_test|_fuzz|/sampler_update|/step_schedule|/calibrate.*)\\.cpp$")
headroom_fuzz(config_fuzz LIBRARIES nlohmann_json::nlohmann_json
  SOURCES ${fuzzed_json} base/text/nearest.cpp base/switch_argument.cpp models/autoencoders/autoencoder_kl_config.cpp models/config.cpp
          models/transformers/flux_config.cpp models/unets/live_stream_unet_config.cpp models/unets/unet2d_condition_config.cpp models/unets/unet2d_config.cpp
          models/unets/unet_config.cpp ${schedules} pipelines/config_fuzz.cpp)
headroom_fuzz(request_fuzz LIBRARIES nlohmann_json::nlohmann_json
  SOURCES ${fuzzed_json} base/text/nearest.cpp base/switch_argument.cpp base/text/list.cpp base/switches.cpp base/target.cpp cli/images/image_job.cpp
          cli/images/request_fuzz.cpp)
