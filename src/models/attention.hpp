#pragma once

#include <cstdint>

#include "ir/builder.hpp"

namespace headroom {

/// [batch, tokens, heads * head_dim] -> [batch, heads, tokens, head_dim]
[[nodiscard]] ValueId split_heads(Builder& builder, ValueId x, std::int64_t heads);

/// softmax(scale q k^T + bias) v of q[b, h, s, d], k[b, h, t, d] and v[b, h, t, d] -> [b, s, h * d]. `bias` broadcasts
/// to [b, h, s, t], or is kNoValue.
[[nodiscard]] ValueId attention_of_heads(Builder& builder, ValueId q, ValueId k, ValueId v, double scale,
                                         ValueId bias = kNoValue);

/// The same of projections q[b, s, heads * d], k[b, t, heads * d] and v[b, t, heads * d].
[[nodiscard]] ValueId attention(Builder& builder, ValueId q, ValueId k, ValueId v, std::int64_t heads, double scale,
                                ValueId bias = kNoValue);

}  // namespace headroom
