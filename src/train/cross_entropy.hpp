#pragma once

#include <cstdint>

#include "ir/builder.hpp"

namespace headroom {

/// The cross-entropy of each row's target, summed and divided by `count`, as a scalar in f32. logits[rows, classes] in
/// a float dtype, targets[rows, 1] in i32. Classes are compared in f32, so there are at most 2^24.
[[nodiscard]] ValueId cross_entropy(Builder& builder, ValueId logits, ValueId targets, std::int64_t count);

}  // namespace headroom
