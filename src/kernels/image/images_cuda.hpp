#pragma once

#include <cstdint>

#include "base/tensors/dtype_code.hpp"

/// The interface of images_cuda between its host and device halves.
namespace headroom::cuda {

enum class Resampling : std::uint8_t { kNearest, kBilinear, kMax, kMean };

/// Dense images of `outer` planes, rows and columns of pixels of `inner` elements (kernels/image/planes.hpp).
struct ResampledImage {
  Resampling how = Resampling::kNearest;
  DType dtype = DType::kF32;
  std::int64_t outer = 0, inner = 1;
  std::int64_t from_height = 0, from_width = 0, to_height = 0, to_width = 0;
  std::int64_t window = 1;  ///< of kMax and kMean
};
void launch_resample(void* stream, const ResampledImage& image, const void* x, void* y);

}  // namespace headroom::cuda
