#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <algorithm>

#include "backends/cuda/cuda_check.cuh"
#include "base/error.hpp"
#include "base/files/file.hpp"
#include "kernels/core/cuda/fill_words.hpp"
#include "kernels/core/cuda/tuner_of.hpp"

namespace headroom::cuda {

std::string driver_version() {
  try {
    std::string text = read_file("/sys/module/nvidia/version");
    text.resize(std::min(text.find('\n'), text.size()));
    return text;
  } catch (const Error&) {  // not reported here; the CUDA version that it supports is
    int version = 0;
    check(cudaDriverGetVersion(&version));
    return fmt::format("CUDA {}", version);
  }
}

void fill_random(Stream& to, DType dtype, DevicePointer memory, std::size_t bytes) {
  void* const stream = to.native_handle();
  void* const data = memory.address();
  // A mask of 32 random bits to keep, and the bits to set: the exponent of 1/2 in each element.
  switch (dtype) {
    case DType::kF32:
      return launch_fill_words(stream, 0x807FFFFFU, 0x3F000000U, data, bytes / 4);
    case DType::kBF16:
      return launch_fill_words(stream, 0x807F807FU, 0x3F003F00U, data, bytes / 4);
    case DType::kF16:
      return launch_fill_words(stream, 0x83FF83FFU, 0x38003800U, data, bytes / 4);
    case DType::kF8E4M3:
      return launch_fill_words(stream, 0x87878787U, 0x30303030U, data, bytes / 4);
    case DType::kF8E5M2:
      return launch_fill_words(stream, 0x83838383U, 0x38383838U, data, bytes / 4);
    case DType::kBool:
      return launch_fill_words(stream, 0x01010101U, 0, data, bytes / 4);
    default:
      HR_CHECK(!is_float(dtype));  // any integers
      return launch_fill_words(stream, 0xFFFFFFFFU, 0, data, bytes / 4);
  }
}

}  // namespace headroom::cuda
