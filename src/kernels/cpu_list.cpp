#include <array>

#include "kernels/attention.hpp"
#include "kernels/cast.hpp"
#include "kernels/conv2d.hpp"
#include "kernels/elementwise.hpp"
#include "kernels/gate_residual.hpp"
#include "kernels/kernel.hpp"
#include "kernels/linear.hpp"
#include "kernels/lists.hpp"
#include "kernels/matmul.hpp"
#include "kernels/max_pool2d.hpp"
#include "kernels/mean.hpp"
#include "kernels/movement.hpp"
#include "kernels/norm.hpp"
#include "kernels/positions.hpp"
#include "kernels/quantize.hpp"
#include "kernels/rope.hpp"
#include "kernels/scaled_linear.hpp"
#include "kernels/softmax.hpp"

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
      &highway_add(),
      &highway_sub(),
      &highway_mul(),
      &highway_add_scalar(),
      &highway_mul_scalar(),
      &highway_relu(),
      &highway_silu(),
      &highway_gelu(),
      &highway_cast(),
      &highway_quantize(),
      &highway_softmax(),
      &highway_layer_norm(),
      &highway_rms_norm(),
      &highway_rope_table(),
      &highway_rope(),
      &highway_timestep_embedding(),
      &highway_reshape(),
      &highway_transpose(),
      &highway_concat(),
      &highway_slice(),
      &highway_row(),
      &highway_mean(),
      &highway_norm_modulate(),
      &highway_gate_residual(),
      &highway_qk_norm_rope(),
  };
  return kKernels;
}

}  // namespace headroom
