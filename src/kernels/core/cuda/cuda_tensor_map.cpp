#include <algorithm>
#include <bit>

#include "backends/cuda/driver.cuh"
#include "base/error.hpp"
#include "base/tensors/dtype.hpp"
#include "kernels/core/cuda/tensor_map.hpp"

namespace headroom::cuda {
namespace {

CUtensorMapDataType element_type(DType dtype) {
  if (dtype == DType::kF32) return CU_TENSOR_MAP_DATA_TYPE_FLOAT32;
  if (dtype == DType::kF16) return CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
  if (size_of(dtype) == 1) return CU_TENSOR_MAP_DATA_TYPE_UINT8;
  HR_CHECK(dtype == DType::kBF16);
  return CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
}

}  // namespace

TensorMap make_tensor_map(const BoxedTensor& tensor, const void* address) {
  const auto rank = static_cast<std::size_t>(tensor.rank);
  std::array<cuuint64_t, BoxedTensor::kMostAxes> extents{}, stride_bytes{};
  std::array<cuuint32_t, BoxedTensor::kMostAxes> box{}, steps{};
  for (std::size_t axis = 0; axis < rank; ++axis) {
    extents[axis] = static_cast<cuuint64_t>(tensor.extents[axis]);
    steps[axis] = static_cast<cuuint32_t>(tensor.steps[axis]);
    // The driver counts a box in the tensor's elements, of which every `steps`-th arrives.
    box[axis] = static_cast<cuuint32_t>((tensor.box[axis] - 1) * tensor.steps[axis] + 1);
    if (axis > 0) stride_bytes[axis - 1] = static_cast<cuuint64_t>(tensor.strides[axis]) * size_of(tensor.dtype);
  }
  CUtensorMap map;
  check(driver().TensorMapEncodeTiled(&map, element_type(tensor.dtype), static_cast<cuuint32_t>(rank),
                                      const_cast<void*>(address), extents.data(), stride_bytes.data(), box.data(),
                                      steps.data(), CU_TENSOR_MAP_INTERLEAVE_NONE,
                                      tensor.is_swizzled ? CU_TENSOR_MAP_SWIZZLE_128B : CU_TENSOR_MAP_SWIZZLE_NONE,
                                      CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE));
  return std::bit_cast<TensorMap>(map);
}

}  // namespace headroom::cuda
