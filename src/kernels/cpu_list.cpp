#include <array>

#include "kernels/cpu_kernels.hpp"
#include "kernels/kernel.hpp"
#include "kernels/lists.hpp"

namespace headroom {

std::span<const Kernel* const> cpu_kernels() {
  static const std::array kKernels = {
      &amx_linear(),
      &onednn_linear(),
      &amx_scaled_linear(),
      &onednn_scaled_linear(),
      &plain_scaled_linear(),
      &onednn_matmul(),
      &amx_attention(),
      &highway_attention(),
      &onednn_conv2d(),
      &onednn_max_pool2d(),
#define HR_ANY(enumerator, ...) &highway_elementwise(Op::enumerator),
#include "ir/elementwise.def"
      &highway_cast(),
      &highway_quantize(),
      &highway_softmax(),
      &highway_layer_norm(),
      &highway_rms_norm(),
      &highway_rope_table(),
      &highway_rope(),
      &highway_timestep_embedding(),
      &highway_movement(Op::kReshape),
      &highway_movement(Op::kTranspose),
      &highway_movement(Op::kConcat),
      &highway_movement(Op::kSlice),
      &highway_movement(Op::kRow),
      &highway_mean(),
      &highway_norm_modulate(),
      &highway_qk_norm_rope(),
  };
  return kKernels;
}

}  // namespace headroom
