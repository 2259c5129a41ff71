#include <algorithm>
#include <string>
#include <vector>

#include "testing/gpu_check.hpp"

namespace headroom::attentions {
namespace {

struct BackwardCase {
  std::int64_t batch, heads, queries, keys, dim, value_dim;
  std::int64_t kv_heads = heads;
  bool causal = false;
  std::int64_t diagonal = 0;
};

/// Scores are small: their exponentials are relative to logarithms that are drawn apart from them.
OpSpec backward_spec_of(DType dtype, const BackwardCase& c) {
  const TensorType rows{DType::kF32, {c.batch, c.heads, c.queries}};
  return make_spec(Op::kAttentionBackward,
                   {{dtype, {c.batch, c.heads, c.queries, c.dim}},
                    {dtype, {c.batch, c.kv_heads, c.keys, c.dim}},
                    {dtype, {c.batch, c.kv_heads, c.keys, c.value_dim}},
                    {dtype, {c.batch, c.heads, c.queries, c.value_dim}},
                    rows,
                    rows},
                   {{attr::kScale, 0.05}, {attr::kCausal, c.causal}, {attr::kDiagonal, c.diagonal}});
}

class HopperAttentionBackward : public cuda::KernelTest {
 protected:
  void SetUp() override {
    KernelTest::SetUp();
    if (!IsSkipped() && target().compute_capability != 90) GTEST_SKIP() << "the kernel is for Hopper";
  }

  void expect_agrees(const BackwardCase& c) {
    for (const DType dtype : {DType::kBF16, DType::kF16}) {
      SCOPED_TRACE(fmt::format("{} queries x {} keys of {}/{}, {} by {} heads, causal {} by {}", c.queries, c.keys,
                               c.dim, c.value_dim, c.heads, c.kv_heads, c.causal, c.diagonal));
      expect_matches_oracle("hopper.attention_backward", backward_spec_of(dtype, c),
                            {.relative_l2 = dtype == DType::kBF16 ? 8e-3 : 1e-3, .max_ulps_of_peak = 8});
    }
  }
};

/// Parts of tiles and of units, several of each, heads smaller than the padded matmuls, values in heads of another
/// size, and heads of keys that queries share.
TEST_F(HopperAttentionBackward, AgreesForEveryShape) {
  for (const BackwardCase& c : {BackwardCase{1, 1, 1, 1, 8, 8},
                                {2, 3, 17, 17, 40, 40},
                                {1, 2, 272, 272, 64, 64},
                                {1, 2, 130, 65, 64, 64},
                                {1, 1, 64, 500, 64, 32},
                                {1, 3, 193, 129, 24, 56},
                                {1, 1, 385, 300, 64, 64},
                                {1, 2, 130, 65, 128, 128},
                                {2, 2, 200, 77, 72, 72},
                                {1, 1, 300, 200, 96, 88},
                                {1, 1, 1, 1, 128, 128},
                                {1, 4, 150, 150, 64, 64, 2},
                                {2, 4, 100, 140, 128, 128, 1}})
    expect_agrees(c);
}

/// Diagonals that leave tiles, warpgroups and rows of a thread without others, and that cut tiles anywhere.
TEST_F(HopperAttentionBackward, TakesACausalOrder) {
  for (const BackwardCase& c : {BackwardCase{2, 2, 77, 77, 64, 64}, BackwardCase{1, 2, 200, 200, 64, 64, 1},
                                BackwardCase{1, 1, 150, 260, 128, 128}, BackwardCase{1, 1, 260, 150, 96, 96},
                                BackwardCase{2, 3, 130, 2, 40, 40}})
    for (const std::int64_t diagonal : {0L, 1L, 100L, c.keys - c.queries, -1L, -70L, -c.queries, 100000L}) {
      BackwardCase made = c;
      made.causal = true, made.diagonal = diagonal;
      expect_agrees(made);
    }
}

TEST(HopperAttentionBackwardKernel, SaysWhatItTakes) {
  const Target hopper{.device = DeviceKind::kCuda, .compute_capability = 90};
  const auto why_not = [](const OpSpec& spec, const Target& target) {
    const Support rejection = kernel_named("hopper.attention_backward").supports(spec, target);
    return rejection ? rejection->reason : std::string();
  };
  const BackwardCase c{1, 2, 100, 100, 64, 64};
  EXPECT_EQ(why_not(backward_spec_of(DType::kBF16, c), hopper), "");
  EXPECT_EQ(why_not(backward_spec_of(DType::kF32, c), hopper), "takes bf16 or f16, not f32");
  EXPECT_EQ(why_not(backward_spec_of(DType::kBF16, c), {.device = DeviceKind::kCuda, .compute_capability = 80}),
            "is for GPUs of compute capability 9.0");
  EXPECT_EQ(why_not(backward_spec_of(DType::kF16, {1, 2, 100, 100, 136, 136}), hopper),
            "takes heads of up to 128, a multiple of 8, not 136");
}

}  // namespace
}  // namespace headroom::attentions
