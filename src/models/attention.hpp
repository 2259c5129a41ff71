#pragma once

#include <cstdint>

#include "ir/builder.hpp"

namespace headroom {

/// softmax(scale q k^T + bias) v by heads, of projections q[b, s, heads * d], k[b, t, heads * d] and v[b, t, heads * d], with a
/// bias that broadcasts to [b, heads, s, t], or kNoValue -> [b, s, heads * d]
[[nodiscard]] ValueId attention(Builder& builder, ValueId q, ValueId k, ValueId v, std::int64_t heads, double scale,
                                ValueId bias = kNoValue);

}  // namespace headroom
