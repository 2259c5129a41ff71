#pragma once

#include "kernels/kernel.hpp"

namespace headroom {

/// x[..., s, d] with its pairs (x[2i], x[2i+1]) rotated by the angles whose cos[s, d/2] and sin[s, d/2] are given in
/// f32. x is f32 or bf16, rows with stride 1 and any strides outside; may run in place.
[[nodiscard]] const Kernel& highway_rope();

/// rope(rms_norm(x)) for each head: x[b, s, heads*d], weight[d], cos[s, d/2], sin[s, d/2] -> [b, heads, s, d]. x may be
/// a slice of a merged QKV product and the output a stretch of a concatenation along s: rows with stride 1, any strides
/// outside.
[[nodiscard]] const Kernel& highway_qk_norm_rope();

}  // namespace headroom
