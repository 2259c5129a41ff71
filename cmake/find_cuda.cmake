# headroom_find_cuda(): find_package(CUDAToolkit 12.8), where CMake looks by itself first, then in the folder where
# scripts/fetch_cuda.sh installs one. Sets CUDAToolkit_FOUND as find_package does, and HEADROOM_CUDNN_INCLUDE_DIR to
# where cudnn.h is, or to NOTFOUND. `headroom_cuda` is what layers that use CUDA link: the runtime, statically, and the
# include folders of cuDNN and NCCL.

macro(headroom_find_cuda)
  # FindCUDAToolkit of CMake 3.25.1 sets a property of this target, which no toolkit of version 13 has any more.
  if(NOT TARGET CUDA::nvToolsExt)
    add_library(CUDA::nvToolsExt INTERFACE IMPORTED)
  endif()
  find_package(CUDAToolkit 12.8 QUIET)
  if(NOT CUDAToolkit_FOUND AND NOT CUDAToolkit_ROOT AND NOT DEFINED ENV{CUDAToolkit_ROOT})
    execute_process(COMMAND ${PROJECT_SOURCE_DIR}/scripts/fetch_cuda.sh --where
                    OUTPUT_VARIABLE fetched OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
    if(EXISTS ${fetched}/requirements.txt)
      foreach(left BIN_DIR NVCC_EXECUTABLE SENTINEL_FILE)  # by the search that failed
        unset(CUDAToolkit_${left} CACHE)
      endforeach()
      unset(CUDAToolkit_TARGET_DIR)
      unset(CUDAToolkit_INCLUDE_DIR)
      unset(CUDA_CUDART CACHE)
      set(CUDAToolkit_ROOT ${fetched}/nvidia/cu13)
      find_package(CUDAToolkit 12.8 QUIET)
    endif()
  endif()
  if(CUDAToolkit_FOUND)
    # PyPI's packages lie in folders next to one another.
    get_filename_component(packages "${CUDAToolkit_INCLUDE_DIRS}/../.." ABSOLUTE)
    find_path(HEADROOM_CUDNN_INCLUDE_DIR cudnn.h HINTS ${CUDAToolkit_INCLUDE_DIRS} ${packages}/cudnn/include)
    mark_as_advanced(HEADROOM_CUDNN_INCLUDE_DIR)
  endif()
endmacro()

# Once the toolkit is chosen.
function(headroom_use_cuda)
  get_filename_component(packages "${CUDAToolkit_INCLUDE_DIRS}/../.." ABSOLUTE)
  add_library(headroom_cuda INTERFACE)
  target_link_libraries(headroom_cuda INTERFACE CUDA::cudart_static ${CMAKE_DL_LIBS})
  target_include_directories(headroom_cuda SYSTEM INTERFACE ${HEADROOM_CUDNN_INCLUDE_DIR})
  if(EXISTS ${packages}/nccl/include/nccl.h)
    target_include_directories(headroom_cuda SYSTEM INTERFACE ${packages}/nccl/include)
  endif()
  # The loader knows a toolkit in /usr/local or in Debian's folders, but not one in a folder of the user's.
  if(EXISTS ${packages}/cudnn/lib)
    set(CMAKE_BUILD_RPATH ${CMAKE_BUILD_RPATH} ${packages}/cu13/lib ${packages}/cudnn/lib ${packages}/nccl/lib PARENT_SCOPE)
  endif()
endfunction()
