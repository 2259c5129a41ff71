#include "kernels/core/cuda/cuda_kernel.hpp"

#include <cuda_runtime_api.h>

#include <utility>

#include "backends/cuda/cuda_check.cuh"
#include "base/out_of_memory.hpp"
#include "kernels/core/cuda/launched.hpp"

namespace headroom::cuda {

Backend& backend_of(const KernelBinding& binding) {
  HR_CHECK(binding.target.backend != nullptr);
  return *binding.target.backend;
}

std::array<const void*, 3> input_addresses(const LaunchArguments& arguments) {
  return {arguments.input(0), arguments.optional_input(1), arguments.optional_input(2)};
}

Support supports_elements(const OpSpec& spec) { return supports_stored(spec, true); }

Support supports_rows(const OpSpec& spec) {
  if (Support rejection = supports_row_major(spec)) return rejection;
  return supports_elements(spec);
}

Support supports_quantized_rows(const OpSpec& spec) {
  const TensorType& x = spec.inputs[0];
  if (!is_element(x.dtype)) return Rejection{fmt::format("takes f32, bf16 or f16, not {}", x.dtype)};
  if (x.shape[-1] > kMostRowLength)
    return Rejection{fmt::format("takes rows of up to {} elements, not {}", kMostRowLength, x.shape[-1])};
  return std::nullopt;
}

Shape one_a_row(Shape strides) {
  strides.push_back(0);
  return strides;
}

bool is_element(DType dtype) { return dtype == DType::kF32 || dtype == DType::kBF16 || dtype == DType::kF16; }

void check_launched(const char* kernel) {
  const cudaError_t status = cudaGetLastError();
  if (status == cudaSuccess) return;
  const std::string message = fmt::format("the launch of {} was refused with {} ({})", kernel, cudaGetErrorName(status),
                                          cudaGetErrorString(status));
  if (status == cudaErrorMemoryAllocation) throw OutOfMemory(message);
  throw Error(message);
}

}  // namespace headroom::cuda
