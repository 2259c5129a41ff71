#pragma once

#include <cstdint>

#include "ir/builder.hpp"

namespace headroom {

/// The objective of language models: the cross-entropy of each next token, summed and divided by `count` tokens, as a
/// scalar in f32. logits[rows, ids] in a float dtype, targets[rows, 1] in i32. Ids are compared in f32, so there are at
/// most 2^24.
[[nodiscard]] ValueId causal_lm_loss(Builder& builder, ValueId logits, ValueId targets, std::int64_t count);

}  // namespace headroom
