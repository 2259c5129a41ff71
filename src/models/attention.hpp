#pragma once

#include <cstdint>

#include "ir/builder.hpp"

namespace headroom {

/// Multi-head attention, softmax(scale q k^T + bias) v per head, of projections q[b, s, heads * d], k[b, t, heads *
/// d] and v[b, t, heads * d] -> [b, s, heads * d]. `bias` broadcasts to [b, heads, s, t], or is kNoValue.
[[nodiscard]] ValueId attention(Builder& builder, ValueId q, ValueId k, ValueId v, std::int64_t heads, double scale,
                                ValueId bias = kNoValue);

}  // namespace headroom
