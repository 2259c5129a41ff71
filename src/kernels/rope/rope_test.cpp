#include "testing/highway_check.hpp"

namespace headroom {
namespace {

OpSpec rope_spec(DType dtype, const Shape& x) {
  const TensorType table{DType::kF32, {x[-2], x[-1] / 2}};
  return make_spec(Op::kRope, {{dtype, x}, table, table});
}

OpSpec qk_spec(DType dtype, DType weight, std::int64_t batch, std::int64_t seq, std::int64_t heads,
               std::int64_t head_dim) {
  const TensorType table{DType::kF32, {seq, head_dim / 2}};
  return make_spec(Op::kQkNormRope, {{dtype, {batch, seq, heads * head_dim}}, {weight, {head_dim}}, table, table},
                   {{"heads", heads}, {"eps", 1e-6}});
}

TEST(Rope, MatchesTheOracle) {
  const std::vector<Shape> shapes = {{1, 2},     {3, 6},        {5, 14},       {2, 3, 4, 16}, {2, 3, 4, 18},
                                     {4, 5, 30}, {1, 2, 7, 32}, {2, 3, 5, 34}, {2, 9, 64},    {2, 24, 17, 128}};
  for (const Shape& shape : shapes) {
    expect_matches_oracle("highway.rope", rope_spec(DType::kF32, shape));
    expect_matches_oracle("highway.rope", rope_spec(DType::kBF16, shape));
  }
}

TEST(QkNormRope, MatchesTheOracle) {
  for (const std::int64_t head_dim : {2, 6, 14, 16, 18, 30, 32, 34, 64, 128}) {
    for (const auto& [batch, seq, heads] : {std::array<std::int64_t, 3>{1, 1, 1}, {2, 5, 3}, {1, 7, 2}}) {
      expect_matches_oracle("highway.qk_norm_rope", qk_spec(DType::kF32, DType::kF32, batch, seq, heads, head_dim));
      expect_matches_oracle("highway.qk_norm_rope", qk_spec(DType::kBF16, DType::kBF16, batch, seq, heads, head_dim));
      expect_matches_oracle("highway.qk_norm_rope", qk_spec(DType::kBF16, DType::kF32, batch, seq, heads, head_dim));
    }
  }
  expect_matches_oracle("highway.qk_norm_rope", qk_spec(DType::kF32, DType::kF32, 2, 50, 6, 64));
  expect_matches_oracle("highway.qk_norm_rope", qk_spec(DType::kBF16, DType::kBF16, 2, 9, 24, 128));
}

}  // namespace
}  // namespace headroom
