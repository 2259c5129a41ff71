#include <array>
#include <tuple>

#include "testing/gpu_check.hpp"

namespace headroom {
namespace {

using CudaMovement = cuda::KernelTest;
using CudaCast = cuda::KernelTest;
using CudaPositions = cuda::KernelTest;

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
                                                     {{4, 1, 6}, {1, 2, 0}},
                                                     {{64, 48}, {1, 0}},  // tiles of every size of unit
                                                     {{3, 20, 4, 36, 2}, {0, 1, 3, 2, 4}},
                                                     {{2, 16, 6, 2, 32, 2}, {0, 2, 4, 1, 3, 5}},  // patches of latents
                                                     {{2, 6, 32, 16, 2, 2}, {0, 3, 1, 4, 2, 5}}};
  for (const DType dtype : kDTypes)
    for (const auto& [shape, perm] : cases)
      expect_matches_oracle("cuda.transpose", make_spec(Op::kTranspose, {{dtype, shape}}, {{"perm", perm}}));
}

/// Pixels of r x r patches, or of r colours, and back: the short axis and its neighbour are contiguous.
TEST_F(CudaMovement, ShortAxesMatchTheOracle) {
  for (const DType dtype : kDTypes)
    for (const std::int64_t r : {2, 3, 4, 8})
      for (const std::int64_t width : {16, 30, 96}) {
        const Shape planes{2, 3, r, r, 5, width}, patches{2, 3, 5, r, width, r};
        expect_matches_oracle("cuda.transpose",
                              make_spec(Op::kTranspose, {{dtype, planes}}, {{"perm", Ints{0, 1, 4, 2, 5, 3}}}));
        expect_matches_oracle("cuda.transpose",
                              make_spec(Op::kTranspose, {{dtype, patches}}, {{"perm", Ints{0, 1, 3, 5, 2, 4}}}));
        expect_matches_oracle("cuda.transpose",
                              make_spec(Op::kTranspose, {{dtype, {2, r, 3, width}}}, {{"perm", Ints{0, 2, 3, 1}}}));
        expect_matches_oracle("cuda.transpose",
                              make_spec(Op::kTranspose, {{dtype, {2, 3, width, r}}}, {{"perm", Ints{0, 3, 1, 2}}}));
      }
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
    // More than one launch, of parts with units of their own.
    expect_matches_oracle(
        "cuda.concat",
        make_spec(Op::kConcat, {{dtype, {3, 16}}, {dtype, {3, 1}}, {dtype, {3, 40}}, {dtype, {3, 2}}, {dtype, {3, 32}}},
                  {{"axis", std::int64_t{1}}}));
    expect_matches_oracle("cuda.concat", make_spec(Op::kConcat, {{dtype, {1, 32, 5120}}, {dtype, {1, 64, 5120}}},
                                                   {{"axis", std::int64_t{1}}}));
    expect_matches_oracle("cuda.reshape", make_spec(Op::kReshape, {{dtype, {6, 35}}}, {{"shape", Ints{5, 2, 21}}}));
    expect_matches_oracle("cuda.row", make_spec(Op::kRow, {{dtype, {9, 4, 17}}, index}));
    expect_matches_oracle("cuda.row", make_spec(Op::kRow, {{dtype, {9}}, index}));
  }
}

TEST_F(CudaMovement, PadBroadcastAndGatherMatchTheOracle) {
  for (const DType dtype : kDTypes) {
    for (const auto& [shape, before, after] :
         {std::tuple(Shape{7}, Ints{2}, Ints{0}), std::tuple(Shape{3, 5}, Ints{0, 0}, Ints{0, 0}),
          std::tuple(Shape{3, 5}, Ints{1, 2}, Ints{3, 4}),
          std::tuple(Shape{2, 3, 70, 32}, Ints{0, 0, 1, 8}, Ints{0, 0, 0, 8})})
      expect_matches_oracle(
          "cuda.pad", make_spec(Op::kPad, {{dtype, shape}}, {{"before", before}, {"after", after}, {"value", 3.0}}));
    for (const auto& [shape, to] :
         {std::pair(Shape{}, Ints{5}), std::pair(Shape{1}, Ints{1}), std::pair(Shape{3, 1}, Ints{3, 70}),
          std::pair(Shape{1, 64}, Ints{40, 64}), std::pair(Shape{40, 1}, Ints{2, 40, 3}),
          std::pair(Shape{2, 1, 33, 1, 5}, Ints{2, 4, 33, 6, 5}), std::pair(Shape{2, 1, 8, 64}, Ints{2, 3, 8, 64})})
      expect_matches_oracle("cuda.broadcast", make_spec(Op::kBroadcast, {{dtype, shape}}, {{"shape", to}}));
    for (const DType ids : {DType::kI32, DType::kI64})
      for (const Shape& shape : {Shape{}, Shape{1}, Shape{5}, Shape{3, 40}})
        for (const Shape& table : {Shape{7}, Shape{1, 3}, Shape{9, 17}, Shape{6, 2, 32}, Shape{4, 4096}})
          expect_matches_oracle("cuda.gather", make_spec(Op::kGather, {{dtype, table}, {ids, shape}}));
  }
}

TEST_F(CudaMovement, ConstantMatchesTheOracle) {
  for (const DType dtype : kDTypes)
    for (const Ints& shape : {Ints{}, Ints{5}, Ints{3, 1, 70}})
      for (const bool is_one : {false, true}) {
        std::vector<double> values(is_one ? 1 : static_cast<std::size_t>(Shape(shape).numel()));
        for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(i % 200 + 1);
        const OpSpec spec = make_spec(Op::kConstant, {}, {{"values", values}, {"shape", shape}, {"dtype", dtype}});
        const Comparison result =
            compare(kernel_named("cuda.constant"), spec, 1, {.relative_l2 = 0, .max_ulps_of_peak = 0});
        EXPECT_TRUE(result.passed) << name_of(dtype) << ": " << result.message;
      }
}

TEST_F(CudaMovement, ScatterAddMatchesTheOracle) {
  for (const DType dtype : cuda::kDTypes)
    for (const DType ids : {DType::kI32, DType::kI64})
      for (const std::int64_t count : {1, 100, 700})
        for (const Shape& row : {Shape{}, Shape{17}, Shape{3, 200}})
          for (const std::int64_t rows : {1, 7, 300}) {
            Shape table{rows}, updates{count};
            for (const std::int64_t extent : row.dims()) table.push_back(extent), updates.push_back(extent);
            expect_matches_oracle("cuda.scatter_add",
                                  make_spec(Op::kScatterAdd, {{dtype, table}, {ids, {count}}, {dtype, updates}}),
                                  dtype == DType::kF32 ? Tolerance{.relative_l2 = 5e-5} : default_tolerance(dtype));
          }
}

using CudaRandom = cuda::KernelTest;

TEST_F(CudaRandom, MakesTheBitsOfTheOracle) {
  for (const char* distribution : {"normal", "uniform"})
    for (const auto& [keys, offset] : {std::pair(DType::kI64, DType::kI32), std::pair(DType::kI32, DType::kI64)})
      for (const Ints& shape : {Ints{}, Ints{3, 5}, Ints{4, 33, 61}})
        expect_matches_oracle("cuda.random",
                              make_spec(Op::kRandom, {{keys, {3}}, {offset, {}}},
                                        {{"shape", shape}, {"distribution", std::string(distribution)}}),
                              {.relative_l2 = 0, .max_ulps_of_peak = 0});
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
