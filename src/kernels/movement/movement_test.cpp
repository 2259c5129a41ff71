#include "base/error.hpp"
#include "testing/highway_check.hpp"

namespace headroom {
namespace {

/// One dtype of each size.
constexpr std::array kDTypesOfEachSize = {DType::kU8, DType::kBF16, DType::kF32, DType::kI64};

TEST(Movement, TransposeMatchesTheOracle) {
  const std::vector<std::pair<Shape, Ints>> cases = {{{7}, {0}},
                                                     {{5, 3}, {1, 0}},
                                                     {{33, 65}, {1, 0}},
                                                     {{200, 190}, {1, 0}},
                                                     {{2, 17, 6, 64}, {0, 2, 1, 3}},
                                                     {{2, 48, 3, 64}, {0, 2, 1, 3}},
                                                     {{2, 5, 3, 7}, {0, 2, 1, 3}},
                                                     {{2, 3, 4, 5}, {3, 1, 0, 2}},
                                                     {{2, 3, 4, 5}, {0, 2, 3, 1}},
                                                     {{2, 3, 4, 5}, {3, 2, 1, 0}},
                                                     {{2, 4, 3, 2, 5, 2}, {0, 2, 4, 1, 3, 5}},
                                                     {{4, 1, 6}, {1, 2, 0}},
                                                     {{2, 8, 4, 6, 2}, {0, 3, 1, 2, 4}},
                                                     {{3, 2, 75}, {0, 2, 1}},
                                                     {{2, 2, 5000}, {0, 2, 1}}};
  for (const DType dtype : kDTypesOfEachSize) {
    for (const auto& [shape, perm] : cases) {
      expect_matches_oracle("highway.transpose", make_spec(Op::kTranspose, {{dtype, shape}}, {{"perm", perm}}));
    }
  }
}

TEST(Movement, SliceMatchesTheOracle) {
  for (const DType dtype : kDTypesOfEachSize) {
    for (const int axis : {0, 1, 2}) {
      expect_matches_oracle(
          "highway.slice",
          make_spec(Op::kSlice, {{dtype, {5, 6, 37}}},
                    {{"axis", std::int64_t{axis}}, {"start", std::int64_t{2}}, {"size", std::int64_t{3}}}));
    }
    expect_matches_oracle(
        "highway.slice",
        make_spec(Op::kSlice, {{dtype, {2, 80, 300}}},
                  {{"axis", std::int64_t{2}}, {"start", std::int64_t{100}}, {"size", std::int64_t{100}}}));
  }
}

TEST(Movement, ConcatMatchesTheOracle) {
  for (const DType dtype : kDTypesOfEachSize) {
    expect_matches_oracle("highway.concat",
                          make_spec(Op::kConcat, {{dtype, {3, 5}}, {dtype, {4, 5}}}, {{"axis", std::int64_t{0}}}));
    expect_matches_oracle("highway.concat", make_spec(Op::kConcat, {{dtype, {3, 5}}, {dtype, {3, 1}}, {dtype, {3, 16}}},
                                                      {{"axis", std::int64_t{1}}}));
    expect_matches_oracle("highway.concat", make_spec(Op::kConcat, {{dtype, {2, 4, 3, 8}}, {dtype, {2, 4, 5, 8}}},
                                                      {{"axis", std::int64_t{2}}}));
  }
}

TEST(Movement, ReshapeMatchesTheOracle) {
  for (const DType dtype : kDTypesOfEachSize) {
    expect_matches_oracle("highway.reshape", make_spec(Op::kReshape, {{dtype, {6, 35}}}, {{"shape", Ints{5, 2, 21}}}));
    expect_matches_oracle("highway.reshape", make_spec(Op::kReshape, {{dtype, {60, 700}}}, {{"shape", Ints{42000}}}));
  }
}

TEST(Movement, PadMatchesTheOracle) {
  for (const DType dtype : kDTypesOfEachSize)
    for (const auto& [shape, before, after] :
         {std::tuple(Shape{7}, Ints{2}, Ints{0}), std::tuple(Shape{3, 5}, Ints{0, 0}, Ints{0, 0}),
          std::tuple(Shape{3, 5}, Ints{1, 2}, Ints{3, 4}),
          std::tuple(Shape{2, 3, 70, 33}, Ints{0, 0, 1, 1}, Ints{0, 0, 0, 1})})
      expect_matches_oracle(
          "highway.pad", make_spec(Op::kPad, {{dtype, shape}}, {{"before", before}, {"after", after}, {"value", 3.0}}));
}

TEST(Movement, BroadcastMatchesTheOracle) {
  for (const DType dtype : kDTypesOfEachSize)
    for (const auto& [shape, to] :
         {std::pair(Shape{}, Ints{5}), std::pair(Shape{1}, Ints{1}), std::pair(Shape{3, 1}, Ints{3, 70}),
          std::pair(Shape{1, 70}, Ints{40, 70}), std::pair(Shape{40, 1}, Ints{2, 40, 3}),
          std::pair(Shape{2, 1, 33, 1, 5}, Ints{2, 4, 33, 6, 5}), std::pair(Shape{1, 1}, Ints{200, 300})})
      expect_matches_oracle("highway.broadcast", make_spec(Op::kBroadcast, {{dtype, shape}}, {{"shape", to}}));
}

TEST(Movement, ConstantMatchesTheOracle) {
  for (const DType dtype : kDTypesOfEachSize)
    for (const Ints& shape : {Ints{}, Ints{5}, Ints{3, 1, 70}})
      for (const bool is_one : {false, true})
        for (const TestStrides strides : {TestStrides::kDense, TestStrides::kPadded, TestStrides::kPermuted}) {
          std::vector<double> values(is_one ? 1 : static_cast<std::size_t>(Shape(shape).numel()));
          for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(i % 200 + 1);
          const OpSpec spec = make_spec(Op::kConstant, {}, {{"values", values}, {"shape", shape}, {"dtype", dtype}});
          const Comparison result = compare_with_oracle(kernel_named("highway.constant"), spec, Target{}, 1,
                                                        {.relative_l2 = 0, .max_ulps_of_peak = 0}, strides);
          EXPECT_TRUE(result.passed) << name_of(dtype) << ": " << result.message;
        }
}

TEST(Movement, RowMatchesTheOracle) {
  const TensorType index{DType::kI32, {}};
  for (const DType dtype : kDTypesOfEachSize) {
    expect_matches_oracle("highway.row", make_spec(Op::kRow, {{dtype, {9, 4, 17}}, index}));
    expect_matches_oracle("highway.row", make_spec(Op::kRow, {{dtype, {9}}, index}));
  }
}

TEST(Movement, RowOutsideTheTableIsAnError) {
  const OpSpec spec = make_spec(Op::kRow, {{DType::kF32, {4, 2}}, {DType::kI32, {}}});
  const std::vector<Operand> in = {dense_operand(spec.inputs[0]), dense_operand(spec.inputs[1])};
  const std::vector<Operand> out = {dense_operand(spec.outputs[0])};
  const auto backend = make_backend(DeviceKind::kCpu, 1);
  const auto stream = backend->make_stream();
  const auto prepared = kernel_named("highway.row").prepare(spec, in, out, Target{});
  const std::array<float, 8> table{};
  std::array<float, 2> row{};
  for (const std::int32_t index : {-1, 4}) {
    const DevicePointer inputs[] = {host_place(table.data()), host_place(&index)};
    const DevicePointer outputs[] = {host_place(row.data())};
    EXPECT_THROW(prepared->launch({*stream, inputs, outputs, {}}), Error) << index;
  }
}

}  // namespace
}  // namespace headroom
