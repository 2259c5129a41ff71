#pragma once

#include "kernels/kernel.hpp"

namespace headroom {

// The kernels for NVIDIA GPUs, in the order of ops.def. Those called cuda.* are written here, for f32,
// bf16 and f16 (operands beside x the same or f32); cublaslt.* and cudnn.* are NVIDIA's. Each op's file says what it
// takes.

/// The kernel of a row of elementwise.def.
[[nodiscard]] const Kernel& cuda_elementwise(Op op);
[[nodiscard]] const Kernel& cuda_cast();
[[nodiscard]] const Kernel& cublaslt_linear();
[[nodiscard]] const Kernel& cuda_quantize();
[[nodiscard]] const Kernel& cublaslt_scaled_linear();
[[nodiscard]] const Kernel& cublaslt_matmul();
[[nodiscard]] const Kernel& cudnn_attention();
[[nodiscard]] const Kernel& cublaslt_attention();
/// Of softmax, layer_norm, rms_norm, norm_modulate, gate_residual_norm and the last two quantized.
[[nodiscard]] const Kernel& cuda_norm(Op op);
[[nodiscard]] const Kernel& cuda_rope_table();
[[nodiscard]] const Kernel& cuda_rope();
[[nodiscard]] const Kernel& cuda_timestep_embedding();
/// The kernel of reshape, transpose, concat, slice or row.
[[nodiscard]] const Kernel& cuda_movement(Op op);
[[nodiscard]] const Kernel& cuda_qk_norm_rope();

}  // namespace headroom
