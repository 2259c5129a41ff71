#pragma once

#include <algorithm>
#include <cstdint>

#include "ir/op.hpp"

namespace headroom {

/// The diagonal of an attention of these attributes, `causal` or not: query i sees keys 0..i + diagonal. It is between
/// -queries, where no query sees a key, and keys - 1, where every query sees all.
[[nodiscard]] inline std::int64_t diagonal_of(const Attributes& attributes, std::int64_t queries, std::int64_t keys) {
  const std::int64_t diagonal = attributes[attr::kCausal] ? attributes[attr::kDiagonal] : keys - 1;
  return std::max(-queries, std::min(diagonal, keys - 1));
}

/// How many pairs of a query and a key that it sees there are.
[[nodiscard]] inline double visible_pairs(std::int64_t queries, std::int64_t keys, std::int64_t diagonal) {
  const auto up_to = [&](std::int64_t seen) {  // of queries that would see `seen` keys and fewer
    const auto growing = static_cast<double>(std::clamp<std::int64_t>(seen, 0, keys));
    return growing * (growing + 1) / 2 + static_cast<double>(std::max<std::int64_t>(seen - keys, 0) * keys);
  };
  return up_to(diagonal + queries) - up_to(diagonal);
}

}  // namespace headroom
