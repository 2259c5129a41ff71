#include <array>

#include "kernels/cuda/gpu_check.hpp"

namespace headroom {
namespace {

using CudaMovement = cuda::KernelTest;
using CudaCast = cuda::KernelTest;
using CudaPositions = cuda::KernelTest;
using Ints = std::vector<std::int64_t>;

/// One dtype of each size.
constexpr std::array kDTypes = {DType::kU8, DType::kBF16, DType::kF32, DType::kI64};

TEST_F(CudaMovement, TransposeMatchesTheOracle) {
  const std::vector<std::pair<Shape, Ints>> cases = {{{7}, {0}},
                                                     {{5, 3}, {1, 0}},
                                                     {{33, 65}, {1, 0}},
                                                     {{2, 17, 6, 64}, {0, 2, 1, 3}},
                                                     {{2, 5, 3, 7}, {0, 2, 1, 3}},
                                                     {{2, 3, 4, 5}, {3, 1, 0, 2}},
                                                     {{2, 3, 4, 5}, {3, 2, 1, 0}},
                                                     {{2, 4, 3, 2, 5, 2}, {0, 2, 4, 1, 3, 5}},
                                                     {{4, 1, 6}, {1, 2, 0}}};
  for (const DType dtype : kDTypes)
    for (const auto& [shape, perm] : cases)
      expect_matches_oracle("cuda.transpose", make_spec(Op::kTranspose, {{dtype, shape}}, {{"perm", perm}}));
}

TEST_F(CudaMovement, SliceConcatReshapeAndRowMatchTheOracle) {
  const TensorType index{DType::kI32, {}};
  for (const DType dtype : kDTypes) {
    for (const std::int64_t axis : {0, 1, 2})
      expect_matches_oracle("cuda.slice",
                            make_spec(Op::kSlice, {{dtype, {5, 6, 37}}},
                                      {{"axis", axis}, {"start", std::int64_t{2}}, {"size", std::int64_t{3}}}));
    expect_matches_oracle("cuda.concat",
                          make_spec(Op::kConcat, {{dtype, {3, 5}}, {dtype, {4, 5}}}, {{"axis", std::int64_t{0}}}));
    expect_matches_oracle("cuda.concat", make_spec(Op::kConcat, {{dtype, {3, 5}}, {dtype, {3, 1}}, {dtype, {3, 16}}},
                                                   {{"axis", std::int64_t{1}}}));
    expect_matches_oracle("cuda.concat", make_spec(Op::kConcat, {{dtype, {2, 4, 3, 8}}, {dtype, {2, 4, 5, 8}}},
                                                   {{"axis", std::int64_t{2}}}));
    expect_matches_oracle("cuda.reshape", make_spec(Op::kReshape, {{dtype, {6, 35}}}, {{"shape", Ints{5, 2, 21}}}));
    expect_matches_oracle("cuda.row", make_spec(Op::kRow, {{dtype, {9, 4, 17}}, index}));
    expect_matches_oracle("cuda.row", make_spec(Op::kRow, {{dtype, {9}}, index}));
  }
}

TEST_F(CudaCast, EveryPairOfDTypesMatchesTheOracle) {
  constexpr std::array kAll = {DType::kF64, DType::kF32, DType::kF16, DType::kBF16, DType::kF8E4M3, DType::kF8E5M2,
                               DType::kI64, DType::kI32, DType::kI8,  DType::kU8,   DType::kBool};
  for (const DType from : kAll)
    for (const DType to : kAll)
      expect_matches_oracle("cuda.cast", make_spec(Op::kCast, {{from, {3, 19}}}, {{"dtype", to}}));
  for (const std::int64_t n : {8, 16, 4096, 16501}) {
    for (const auto& [from, to] : {std::pair(DType::kF32, DType::kBF16), std::pair(DType::kBF16, DType::kF32),
                                   std::pair(DType::kF32, DType::kF16), std::pair(DType::kF16, DType::kF32),
                                   std::pair(DType::kBF16, DType::kF16)})
      expect_matches_oracle("cuda.cast", make_spec(Op::kCast, {{from, {2, n}}}, {{"dtype", to}}));
  }
}

TEST_F(CudaPositions, MatchTheOracle) {
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kI32}) {
    expect_matches_oracle("cuda.rope_table",
                          make_spec(Op::kRopeTable, {{dtype, {37, 3}}}, {{"axes", Ints{16, 56, 56}}}));
    expect_matches_oracle("cuda.rope_table", make_spec(Op::kRopeTable, {{dtype, {5, 1}}}, {{"axes", Ints{2}}}));
  }
  for (const std::int64_t dim : {2, 32, 256})
    expect_matches_oracle("cuda.timestep_embedding",
                          make_spec(Op::kTimestepEmbedding, {{DType::kF32, {3}}}, {{"dim", dim}, {"scale", 1000.0}}));
}

}  // namespace
}  // namespace headroom
