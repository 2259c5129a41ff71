#include "testing/conformance.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace headroom {
namespace {

class ConformanceTest : public testing::Test {
 protected:
  [[nodiscard]] DeviceTarget target() const { return backend_->properties().target; }
  std::vector<CaseOutcome> check(std::vector<CaseOutcome> cases) {
    return check_conformance(*backend_, target(), std::move(cases));
  }
  /// The first case of `op` in that dtype.
  static CaseOutcome first_case(Op op, DType dtype) {
    for (CaseOutcome& one : conformance_cases(op))
      if (one.types == CaseTypes{dtype, dtype}) return std::move(one);
    ADD_FAILURE() << "no case";
    return {};
  }

  std::unique_ptr<Backend> backend_ = make_backend(DeviceKind::kCpu, 2);
};

TEST_F(ConformanceTest, ACpuDiffersNowhereAndRunsEveryPlainOp) {
  for (const CaseOutcome& outcome : check(conformance_cases(std::nullopt))) {
    EXPECT_NE(outcome.is, Conformity::kDiffers) << name_of(outcome.one.spec.op) << " of " << name_of(outcome.types.data)
                                                << ", " << outcome.one.name << ": " << outcome.reason;
    EXPECT_EQ(outcome.is == Conformity::kRuns, outcome.reason.empty());
    EXPECT_EQ(outcome.is == Conformity::kLacks, outcome.kernels.empty());
  }
}

TEST_F(ConformanceTest, ALargerErrorThanTheBoundIsADifference) {
  CaseOutcome one = first_case(Op::kGeluTanh, DType::kF32);
  ASSERT_EQ(check({one})[0].is, Conformity::kRuns);
  one.one.tolerance = kExactly;
  const CaseOutcome differs = check({one})[0];
  EXPECT_EQ(differs.is, Conformity::kDiffers);
  EXPECT_GT(differs.relative_l2, 0);
  EXPECT_THAT(differs.reason, testing::StartsWith("highway.gelu_tanh: "));
}

TEST_F(ConformanceTest, ALackHasTheReasonOfEachKernel) {
  const CaseOutcome lacks = check({first_case(Op::kRelu, DType::kF16)})[0];
  EXPECT_EQ(lacks.is, Conformity::kLacks);
  EXPECT_EQ(lacks.reason, "highway.relu: stores f32 or bf16, not f16");
  EXPECT_TRUE(lacks.kernels.empty());
}

TEST_F(ConformanceTest, ATargetMayBeNarrowerThanTheDevice) {
  DeviceTarget portable = target();
  portable.cpu_isa = CpuIsa::kPortable;
  const CaseOutcome lacks = check_conformance(*backend_, portable, {first_case(Op::kConv2d, DType::kBF16)})[0];
  EXPECT_EQ(lacks.is, Conformity::kLacks);
  EXPECT_THAT(lacks.reason, testing::HasSubstr("AVX-512"));
}

TEST_F(ConformanceTest, EqualSpecsAppearOnce) {
  const std::vector<CaseOutcome> cases = conformance_cases(Op::kRelu);
  EXPECT_EQ(std::ranges::count(cases, (CaseTypes{DType::kBF16, DType::kF32}), &CaseOutcome::types), 0)
      << "relu has no vectors";
  EXPECT_GT(std::ranges::count(cases, (CaseTypes{DType::kBF16, DType::kBF16}), &CaseOutcome::types), 0);
}

TEST_F(ConformanceTest, TellsItsProgress) {
  std::vector<std::size_t> done;
  static_cast<void>(check_conformance(*backend_, target(), conformance_cases(Op::kSoftmax),
                                      [&](const ConformanceProgress& at) { done.push_back(at.done); }));
  EXPECT_EQ(done.size(), conformance_cases(Op::kSoftmax).size());
  EXPECT_TRUE(std::ranges::is_sorted(done));
}

}  // namespace
}  // namespace headroom
