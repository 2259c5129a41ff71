#include "testing/highway_check.hpp"

namespace headroom {
namespace {

TEST(Positions, RopeTableMatchesTheOracle) {
  const std::vector<std::int64_t> axes = {16, 56, 56};
  for (const DType dtype : {DType::kF32, DType::kI32, DType::kF64, DType::kBF16}) {
    expect_matches_oracle("highway.rope_table", make_spec(Op::kRopeTable, {{dtype, {67, 3}}}, {{"axes", axes}}));
  }
  expect_matches_oracle("highway.rope_table", make_spec(Op::kRopeTable, {{DType::kI64, {1, 1}}},
                                                        {{"axes", std::vector<std::int64_t>{2}}, {"theta", 256.0}}));
}

TEST(Positions, TimestepEmbeddingMatchesTheOracle) {
  for (const DType dtype : {DType::kF32, DType::kI32, DType::kF64, DType::kBF16}) {
    expect_matches_oracle("highway.timestep_embedding", make_spec(Op::kTimestepEmbedding, {{dtype, {3}}},
                                                                  {{"dim", std::int64_t{256}}, {"scale", 1000.0}}));
  }
  expect_matches_oracle("highway.timestep_embedding",
                        make_spec(Op::kTimestepEmbedding, {{DType::kF32, {1}}}, {{"dim", std::int64_t{2}}}));
}

}  // namespace
}  // namespace headroom
