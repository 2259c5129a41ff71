#pragma once

#include "kernels/kernel.hpp"

namespace headroom {

// The kernels for CPUs: amx.* and highway.* are written here, onednn.* are oneDNN's. Each one's file says more.

/// linear with bias and activation in f32 or bf16, on oneDNN's matmul primitive; packs weights.
[[nodiscard]] const Kernel& onednn_linear();
/// linear with an activation in bf16 on AMX tiles, for weights of multiples of 32, which it packs.
[[nodiscard]] const Kernel& amx_linear();

/// Products of quantized rows in int8 on AMX tiles, scaled, biased and activated block by block as the sums are made:
/// for CPUs with AMX, weights that fit in a core's cache, and activations whose results become bf16.
[[nodiscard]] const Kernel& amx_scaled_linear();
/// Products of quantized rows in int8 on oneDNN's matmul primitive, scaled, biased and activated row by row; packs
/// weights. Needs a CPU with VNNI or AMX.
[[nodiscard]] const Kernel& onednn_scaled_linear();
/// The same for any sizes and any CPU, without a library: for what oneDNN declines.
[[nodiscard]] const Kernel& plain_scaled_linear();

/// Batched matmul in f32 or bf16 on oneDNN, with rows of any strides.
[[nodiscard]] const Kernel& onednn_matmul();

/// attention in bf16 on a CPU's matrix tiles.
[[nodiscard]] const Kernel& amx_attention();
/// attention on the vector units, written with Highway.
[[nodiscard]] const Kernel& highway_attention();

/// conv2d with bias in f32 or bf16 on oneDNN, row-major or channels-last; packs weights.
[[nodiscard]] const Kernel& onednn_conv2d();

/// max_pool2d in f32 or bf16 on oneDNN, row-major or channels-last.
[[nodiscard]] const Kernel& onednn_max_pool2d();

/// The kernel of a row of elementwise.def, on f32 or bf16 (b of three operands the same or f32), innermost stride 1 and
/// any strides outside; operands broadcast as in NumPy. It may write over one of the result's type and strides.
[[nodiscard]] const Kernel& highway_elementwise(Op op);

/// Any dtype to any other, rounding to nearest even and saturating as store_from_double() says; vectorized between f32
/// and bf16 and from f16, an element at a time for the rest. Innermost stride 1, any strides outside.
[[nodiscard]] const Kernel& highway_cast();

/// Rows of f32 or bf16 to i8 with a scale each.
[[nodiscard]] const Kernel& highway_quantize();

/// softmax over the innermost axis of f32 or bf16, rows with stride 1 and any strides outside; may run in place.
[[nodiscard]] const Kernel& highway_softmax();

// Norms over the innermost axis of f32 or bf16, rows with stride 1 and any strides outside; may run in place. Weight,
// scale and shift have x's dtype or f32.
/// (x - mean) / sqrt(variance + eps), no affine part.
[[nodiscard]] const Kernel& highway_layer_norm();
/// x / sqrt(mean(x^2) + eps) * weight[d]
[[nodiscard]] const Kernel& highway_rms_norm();
/// layer_norm(x[b, s, d]) * (1 + scale[b, 1, d]) + shift[b, 1, d]
[[nodiscard]] const Kernel& highway_norm_modulate();

/// ids[s, axes] of any number dtype -> cos[s, d/2], sin[s, d/2] in f32, computed in f64.
[[nodiscard]] const Kernel& highway_rope_table();
/// t[b] of any number dtype -> [b, dim] in f32, computed in f64.
[[nodiscard]] const Kernel& highway_timestep_embedding();

/// x[..., s, d] with its pairs (x[2i], x[2i+1]) rotated by the angles whose cos[s, d/2] and sin[s, d/2] are given in
/// f32. x is f32 or bf16, rows with stride 1 and any strides outside; may run in place.
[[nodiscard]] const Kernel& highway_rope();
/// rope(rms_norm(x)) for each head: x[b, s, heads*d], weight[d], cos[s, d/2], sin[s, d/2] -> [b, heads, s, d]. x may be
/// a slice of a merged QKV product and the output a stretch of a concatenation along s: rows with stride 1, any strides
/// outside.
[[nodiscard]] const Kernel& highway_qk_norm_rope();

/// The kernel of reshape, transpose, concat, slice or row, which move elements of any dtype and change none. All but
/// reshape take operands of any strides. The planner makes most of them views; these run where it cannot. row is
/// table[index] for an i32 scalar; its launch throws Error where there is no such row.
[[nodiscard]] const Kernel& highway_movement(Op op);

/// Mean over all axes from one on, of f32 or bf16; innermost stride 1 and any strides outside, or channels-last.
[[nodiscard]] const Kernel& highway_mean();

}  // namespace headroom
