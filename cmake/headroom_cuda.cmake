# HEADROOM_CUDA: ON, OFF, TOOLKIT, which is ON where a CUDA toolkit of 12.8 or later is found (scripts/bootstrap.sh cuda
# installs one), or AUTO, which is ON where there is an NVIDIA GPU too: kernels for one take a third of a build. Sets
# HEADROOM_WITH_CUDA to what became of it, and HEADROOM_CUDA_LIBRARIES to what layers that use CUDA link.
#
# Sources that need the toolkit are *.cu, cuda_*.cpp, *_cuda.cpp and *_cuda_test.cpp; cuda_*stub.cpp replace them in a
# build without (headroom_layer chooses), so that no caller has an #ifdef. Headers that need it are *.cuh; *.hpp never
# do.
#
# The CUDA runtime is linked statically; cuBLASLt, cuDNN and NVRTC are opened by their soname when a GPU is first used.
# So one program runs on machines with and without a GPU, and says what is missing where something is.

set(HEADROOM_CUDA AUTO CACHE STRING
    "Build for NVIDIA GPUs: ON, OFF, TOOLKIT (where a CUDA toolkit of 12.8 or later is found), or AUTO (where a GPU is, too)")
set_property(CACHE HEADROOM_CUDA PROPERTY STRINGS AUTO TOOLKIT ON OFF)
set(HEADROOM_WITH_CUDA OFF)
set(HEADROOM_CUDA_LIBRARIES)
include(cmake/find_cuda.cmake)
set(why_not "GPU devices are refused with a sentence that says so")

if(HEADROOM_CUDA STREQUAL "AUTO" OR HEADROOM_CUDA STREQUAL "TOOLKIT")
  headroom_find_cuda()
  if(NOT CUDAToolkit_FOUND OR NOT CUDAToolkit_NVCC_EXECUTABLE)
    set(why_not "no toolkit of 12.8 or later was found; scripts/bootstrap.sh cuda installs one")
  elseif(NOT HEADROOM_CUDNN_INCLUDE_DIR)
    set(why_not "there is a toolkit, but no cudnn.h; -DHEADROOM_CUDNN_INCLUDE_DIR=DIR says where it is")
  elseif(HEADROOM_CUDA STREQUAL "AUTO" AND NOT EXISTS /dev/nvidiactl AND NOT EXISTS /dev/dxg)  # the latter under WSL
    set(why_not "there is a toolkit but no NVIDIA GPU; -DHEADROOM_CUDA=ON builds for GPUs elsewhere")
  else()
    set(HEADROOM_WITH_CUDA ON)
  endif()
elseif(HEADROOM_CUDA)
  headroom_find_cuda()
  if(NOT CUDAToolkit_FOUND OR NOT CUDAToolkit_NVCC_EXECUTABLE)
    message(FATAL_ERROR "HEADROOM_CUDA is ON, but no CUDA toolkit of 12.8 or later was found; scripts/bootstrap.sh cuda installs one, "
                        "-DCUDAToolkit_ROOT=DIR says where it is")
  elseif(NOT HEADROOM_CUDNN_INCLUDE_DIR)
    message(FATAL_ERROR "HEADROOM_CUDA is ON, but cudnn.h was not found; -DHEADROOM_CUDNN_INCLUDE_DIR=DIR says where it is")
  endif()
  set(HEADROOM_WITH_CUDA ON)
endif()

if(HEADROOM_WITH_CUDA)
  # Machine code for Hopper with its own instructions; for every other GPU from Ampere on, what sm_80 has, as machine
  # code and as PTX that the driver compiles when it first sees a newer GPU.
  if(NOT CMAKE_CUDA_ARCHITECTURES)
    set(CMAKE_CUDA_ARCHITECTURES 80 90a-real)
  endif()
  if(NOT CMAKE_CUDA_COMPILER)
    set(CMAKE_CUDA_COMPILER ${CUDAToolkit_NVCC_EXECUTABLE})
  endif()
  if(CMAKE_CXX_COMPILER_LAUNCHER AND NOT CMAKE_CUDA_COMPILER_LAUNCHER)
    set(CMAKE_CUDA_COMPILER_LAUNCHER ${CMAKE_CXX_COMPILER_LAUNCHER})
  endif()
  enable_language(CUDA)
  set(CMAKE_CUDA_STANDARD 20)
  set(CMAKE_CUDA_STANDARD_REQUIRED ON)
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)  # CMake 3.25 does not know how to ask nvcc for that
  set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION -std=c++20)
  headroom_use_cuda()
  # Half the bytes of the default. Drivers of CUDA 12 before 12.4 cannot read it.
  if(CUDAToolkit_VERSION VERSION_GREATER_EQUAL 13)
    add_compile_options($<$<COMPILE_LANGUAGE:CUDA>:--compress-mode=size>)
  endif()
  set(HEADROOM_CUDA_LIBRARIES headroom_cuda)
  # Random numbers have the same bits as on a host, which rounds after each multiplication.
  set_source_files_properties(
    ${PROJECT_SOURCE_DIR}/src/backends/cuda/fill_normal.cu ${PROJECT_SOURCE_DIR}/src/kernels/random/random_cuda.cu
    PROPERTIES COMPILE_OPTIONS --fmad=false)
  message(STATUS "CUDA: toolkit ${CUDAToolkit_VERSION}, architectures ${CMAKE_CUDA_ARCHITECTURES}")
else()
  message(STATUS "CUDA: not built: ${why_not}")
endif()
