#include "ir/test_cases/op_cases.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "ir/op_definition.hpp"
#include "ir/test_cases/value_range.hpp"

namespace headroom {
namespace {

// A new op fails here until its row in ir/ops/ has cases.
TEST(OpCases, EveryOpHasSmallCases) {
  for (const OpSchema& schema : all_ops()) {
    ASSERT_NE(definition_of(schema.op).cases, nullptr) << schema.name;
    EXPECT_FALSE(small_cases(schema.op, {}).empty()) << schema.name;
  }
}

TEST(OpCases, AreOfTheirOpAndHaveUniqueNames) {
  for (const OpSchema& schema : all_ops())
    for (const CaseTypes types : kCaseTypes) {
      std::set<std::string> names;
      for (const OpCase& one : small_cases(schema.op, types)) {
        EXPECT_EQ(one.spec.op, schema.op);
        EXPECT_TRUE(names.insert(one.name).second) << schema.name << " has two cases " << one.name;
      }
    }
}

TEST(OpCases, GiveEveryOptionalOperand) {
  for (const OpSchema& schema : all_ops()) {
    if (schema.operands.most() == OperandList::kMost) continue;  // any number
    std::size_t most = 0;
    for (const OpCase& one : small_cases(schema.op, {})) most = std::max(most, one.spec.own_operands());
    EXPECT_EQ(most, schema.operands.most()) << schema.name;
  }
}

TEST(OpCases, CoverBothLayoutsOfOpsThatTakeThem) {
  for (const OpSchema& schema : all_ops()) {
    if (!definition_of(schema.op).any_layout) continue;
    const std::vector<OpCase> cases = small_cases(schema.op, {});
    for (const Layout layout : {Layout::kRowMajor, Layout::kChannelsLast})
      EXPECT_TRUE(std::ranges::any_of(cases, [&](const OpCase& one) { return one.spec.inputs[0].layout == layout; }))
          << schema.name << (layout == Layout::kRowMajor ? " row-major" : " channels last");
  }
}

TEST(OpCases, AreOfIntegersForOpsThatTakeThem) {
  EXPECT_FALSE(small_cases(Op::kAdd, {DType::kI32, DType::kI32}).empty());
  EXPECT_FALSE(small_cases(Op::kLess, {DType::kI64, DType::kI64}).empty());
  EXPECT_FALSE(small_cases(Op::kGather, {DType::kI64, DType::kI64}).empty());
  EXPECT_TRUE(small_cases(Op::kExp, {DType::kI32, DType::kI32}).empty());
  EXPECT_TRUE(small_cases(Op::kDiv, {DType::kI32, DType::kI32}).empty());
  EXPECT_TRUE(small_cases(Op::kLinear, {DType::kI32, DType::kI32}).empty());
}

TEST(OpCases, VectorsMayBeWiderThanTheData) {
  const auto has_f32_vector = [](const OpCase& one) {
    return one.spec.inputs[0].dtype == DType::kBF16 && one.spec.inputs.back().dtype == DType::kF32;
  };
  EXPECT_TRUE(std::ranges::any_of(small_cases(Op::kRmsNorm, {DType::kBF16, DType::kF32}), has_f32_vector));
  EXPECT_FALSE(std::ranges::any_of(small_cases(Op::kRmsNorm, {DType::kBF16, DType::kBF16}), has_f32_vector));
}

TEST(OpCases, BenchmarksHaveNamesOfTheirOwn) {
  std::set<std::string> names;
  for (const OpSchema& schema : all_ops())
    for (const OpCase& one : benchmark_cases(schema.op))
      EXPECT_TRUE(names.insert(one.name).second) << "two benchmarks are called " << one.name;
  EXPECT_THAT(names, testing::IsSupersetOf({"add f32", "gelu bf16", "linear bf16 5440x768x192", "cast f32 to bf16",
                                            "scaled_linear f8e4m3 to bf16 4608x3072x12288 gelu_tanh",
                                            "attention f16 of 2x20 heads, 1024 and 77 tokens of 64, SDXL"}));
}

TEST(ValueRange, IndicesAreRowsOfTheTable) {
  const OpSpec spec = make_spec(Op::kGather, {{DType::kF32, {3, 5}}, {DType::kI64, {100}}});
  const std::vector<std::int64_t> ids = random_input(spec, 1, 1).integers;
  EXPECT_EQ(std::set(ids.begin(), ids.end()), (std::set<std::int64_t>{0, 1, 2}));
  EXPECT_EQ(value_range(spec, 0), ValueRange{});
}

TEST(ValueRange, WeightsOfContractionsKeepTheMagnitude) {
  const OpSpec linear = make_spec(Op::kLinear, {{DType::kF32, {2, 64}}, {DType::kF32, {8, 64}}, {DType::kF32, {8}}});
  EXPECT_EQ(value_range(linear, 1).scale, 1.0 / 8);
  EXPECT_EQ(value_range(linear, 2).scale, 1);
  const OpSpec transposed = make_spec(Op::kConvTranspose2d, {{DType::kF32, {1, 4, 3, 3}}, {DType::kF32, {4, 9, 2, 2}}});
  EXPECT_EQ(value_range(transposed, 1).scale, 1.0 / 4);
  const OpSpec norm = make_spec(Op::kRmsNorm, {{DType::kF32, {2, 64}}, {DType::kF32, {64}}}, {{attr::kEps, 1e-6}});
  EXPECT_EQ(value_range(norm, 1).scale, 1) << "of a norm's channels, not of a contraction";
}

TEST(ValueRange, PositionsAndTimesAreNotNormals) {
  const OpSpec table = make_spec(Op::kRopeTable, {{DType::kF32, {5, 2}}}, {{attr::kAxes, Ints{8, 8}}});
  EXPECT_EQ(value_range(table, 0).kind, ValueRange::kIntegers);
  for (const double position : random_input(table, 0, 1).reals) {
    EXPECT_EQ(position, static_cast<double>(static_cast<std::int64_t>(position)));
    EXPECT_GE(position, 0);
  }
  const OpSpec time = make_spec(Op::kTimestepEmbedding, {{DType::kF32, {3}}}, {{attr::kDim, 32}});
  EXPECT_EQ(value_range(time, 0).kind, ValueRange::kUniform);
}

}  // namespace
}  // namespace headroom
