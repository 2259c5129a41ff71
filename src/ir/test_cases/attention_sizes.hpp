#pragma once

#include <fmt/format.h>

#include <array>
#include <cstdint>
#include <string>

#include "ir/test_cases/op_cases.hpp"

namespace headroom {

/// Sizes of attention that are measured in 8 bits and in bf16, with the kernels that prepare its operands.
struct AttentionSize {
  std::int64_t heads, tokens, dim;
  [[nodiscard]] TensorType operand(DType dtype) const { return {dtype, {1, heads, tokens, dim}}; }
  /// "24 heads, 4608 tokens of 128"
  [[nodiscard]] std::string name() const { return fmt::format("{} heads, {} tokens of {}", heads, tokens, dim); }
};
inline constexpr std::array kEightBitSizes = {AttentionSize{kLargeHeads, 4608, 128},
                                              AttentionSize{kLargeHeads, 1536, 128}, AttentionSize{16, 16384, 128},
                                              AttentionSize{24, 4608, 64}, AttentionSize{16, 16384, 64}};

}  // namespace headroom
