#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "testing/compare.hpp"

namespace headroom {
namespace {

constexpr Target kTwoThreads{.threads = 2};

void expect_agrees(std::string_view kernel, const OpSpec& spec, Tolerance tolerance) {
  const Comparison result = compare_with_oracle(kernel_named(kernel), spec, kTwoThreads, 1, tolerance);
  EXPECT_TRUE(result.passed) << kernel << ", " << spec.inputs[0].shape.to_string() << ": " << result.message;
}

TEST(PlainScaledAttention, MatchesTheOracle) {
  for (const DType scores : {DType::kI8, DType::kF8E4M3})
    for (const DType made : {DType::kF32, DType::kBF16, DType::kF16})
      for (const std::int64_t keys : {1, 77, 128, 300})
        for (const std::int64_t kv_heads : {2, 4})
          expect_agrees("plain.scaled_attention",
                        make_spec(Op::kScaledAttention,
                                  {{scores, {2, 4, 33, 24}},
                                   {DType::kF32, {2, 4, 33}},
                                   {scores, {2, kv_heads, keys, 24}},
                                   {DType::kF32, {2, kv_heads, keys}},
                                   {DType::kF8E4M3, {2, kv_heads, 16, (keys + 127) / 128 * 128}},
                                   {DType::kF32, {2, kv_heads, 16}}},
                                  {{attr::kScale, 0.3}, {attr::kDType, made}}),
                        {.relative_l2 = made == DType::kF32 ? 1e-5 : 4e-3});
}

TEST(PlainQuantizeValues, IsTheOracleBitForBit) {
  for (const DType from : {DType::kF32, DType::kBF16, DType::kF16})
    for (const std::int64_t tokens : {1, 15, 128, 130})
      expect_agrees("plain.quantize_values", make_spec(Op::kQuantizeValues, {{from, {2, 3, tokens, 10}}}),
                    {.relative_l2 = 1e-7, .max_ulps_of_peak = 1e-6});
}

}  // namespace
}  // namespace headroom
