# What HEADROOM_CUDA=ON needs. Sources that need CUDA are *.cu, cuda_*.cpp and *_cuda.cpp; cuda_*stub.cpp stand in for them
# in a build without (headroom_layer chooses), so that no caller has an #ifdef.

if(HEADROOM_CUDA)
  if(NOT EXISTS ${PROJECT_SOURCE_DIR}/src/backends/cuda/cuda_backend.cpp)
    message(FATAL_ERROR "HEADROOM_CUDA=ON, but the CUDA backend is not part of this revision "
                        "(there is no src/backends/cuda/cuda_backend.cpp); configure with HEADROOM_CUDA=OFF")
  endif()
  if(NOT CMAKE_CUDA_ARCHITECTURES)
    set(CMAKE_CUDA_ARCHITECTURES 80 89 90)
  endif()
  find_package(CUDAToolkit 12.8 REQUIRED)
  enable_language(CUDA)
  set(CMAKE_CUDA_STANDARD 20)
  set(CMAKE_CUDA_STANDARD_REQUIRED ON)
endif()
