#include <array>

#include "kernels/cuda_kernels.hpp"
#include "kernels/lists.hpp"

namespace headroom {

std::span<const Kernel* const> cuda_kernels() {
  static const std::array kKernels = {
      &cublaslt_linear(),
      &cuda_quantize(),
      &cublaslt_scaled_linear(),
      &cublaslt_matmul(),
      &cudnn_attention(),
      &cublaslt_attention(),
#define HR_ANY(enumerator, ...) &cuda_elementwise(Op::enumerator),
#include "ir/elementwise.def"
      &cuda_cast(),
      &cuda_norm(Op::kSoftmax),
      &cuda_norm(Op::kLayerNorm),
      &cuda_norm(Op::kRmsNorm),
      &cuda_rope_table(),
      &cuda_rope(),
      &cuda_timestep_embedding(),
      &cuda_movement(Op::kReshape),
      &cuda_movement(Op::kTranspose),
      &cuda_movement(Op::kConcat),
      &cuda_movement(Op::kSlice),
      &cuda_movement(Op::kRow),
      &cuda_norm(Op::kNormModulate),
      &cuda_norm(Op::kNormModulateQuantize),
      &cuda_norm(Op::kGateResidualNorm),
      &cuda_norm(Op::kGateResidualNormQuantize),
      &cuda_qk_norm_rope(),
  };
  return kKernels;
}

}  // namespace headroom
