#include "measure/probes/floor.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "ir/builder.hpp"
#include "measure/results/result.hpp"

namespace headroom {
namespace {

/// One launch is enough for a test.
const Protocol kOnce{.warmup_min = 0, .warmup_max = 0, .trials = 1};

class FloorTest : public testing::Test {
 protected:
  OpSpec attention(std::int64_t tokens) {
    const TensorType operand{DType::kF32, {1, 2, tokens, 64}};
    return make_spec(Op::kAttention, {operand, operand, operand});
  }
  OpSpec linear(Activation activation) {
    return make_spec(Op::kLinear, {{DType::kF32, {64, 32}}, {DType::kF32, {48, 32}}},
                     {{attr::kEpilogue, Epilogue(activation)}}, {false, true});
  }

  std::unique_ptr<Backend> backend_ = make_backend(DeviceKind::kCpu, 1);
  MachineRates rates_{*backend_, kOnce};
};

TEST(LongerOf, TakesBytesOrOtherWorkAtTheRateOfTheirYardstick) {
  const Yardstick copy{.of = kFloorOfCopy, .work = 100, .ms = 4};  // 25 bytes per ms
  for (const std::string_view of : {kFloorOfFlops, kFloorOfExp}) {
    const Yardstick other{.of = of, .work = 1000, .ms = 2};  // 500 per ms
    const Floor by_work = longer_of(100, copy, 3000, &other);
    EXPECT_EQ(by_work.ms(), 6);
    EXPECT_EQ(by_work.yardstick->of, of);
    const Floor by_bytes = longer_of(200, copy, 3000, &other);
    EXPECT_EQ(by_bytes.ms(), 8);
    EXPECT_EQ(by_bytes.yardstick->of, "copy");
  }
  EXPECT_EQ(longer_of(50, copy, 0, nullptr).ms(), 2);
}

TEST(ExponentialsOf, CountsThemWhereverTheyAre) {
  Graph graph("body");
  Builder b(graph);
  const ValueId x = graph.add_input("x", {DType::kF32, {4, 6}}),
                weight = graph.add_input("weight", {DType::kF32, {8, 6}});
  const ValueId bias = graph.add_input("bias", {DType::kF32, {8}});
  EXPECT_EQ(exponentials_of(graph).count, 0);
  const ValueId soft = b.softmax(b.add(x, x));
  EXPECT_EQ(exponentials_of(graph).count, 24);
  EXPECT_EQ(exponentials_of(graph).dtype, DType::kF32);
  const ValueId wide = b.emit(Op::kLinear, {soft, weight, bias}, {{attr::kEpilogue, Epilogue(Activation::kSilu)}})[0];
  EXPECT_EQ(exponentials_of(graph).count, 24 + 32) << "an activation counts";
  Graph body("gelu");
  Builder inner(body);
  body.add_output("y", inner.gelu_tanh(inner.sigmoid(body.add_input("x", {DType::kBF16, {4, 8}}))));
  b.fused({b.cast(wide, DType::kBF16)}, body);
  EXPECT_EQ(exponentials_of(graph).count, 24 + 32 + 2 * 32) << "and so does the body of a fused op";
  EXPECT_EQ(exponentials_of(graph).dtype, DType::kBF16);
}

TEST_F(FloorTest, AttentionsIsItsFlopsOrItsBytes) {
  const OpRun run(*backend_, attention(256));
  const double flops = 4.0 * 2 * 256 * 256 * 64, bytes = 4.0 * 2 * 256 * 64 * sizeof(float);
  const Yardstick& gemm = rates_.gemm("f32");
  const Yardstick& copy = rates_.copy(bytes);
  EXPECT_EQ(copy.work, bytes);
  EXPECT_EQ(floor_of(run.step(), rates_).ms(), longer_of(bytes, copy, flops, &gemm).ms());
  EXPECT_EQ(&rates_.gemm("f32"), &gemm) << "is measured once";
}

TEST_F(FloorTest, IsOfTheWorkAndNotOfHowItIsDone) {
  const OpRun whole(*backend_, attention(64)), apart(*backend_, attention(64), OpForm::kApart);
  ASSERT_GT(apart.program().steps.size(), 1U);
  EXPECT_EQ(floor_of(whole, rates_).ms(), floor_of(apart, rates_).ms());
  const OpRun plain(*backend_, linear(Activation::kNone)), with_gelu(*backend_, linear(Activation::kGeluTanh));
  EXPECT_EQ(floor_of(with_gelu, rates_).ms(), floor_of(plain, rates_).ms());
  EXPECT_EQ(floor_of(with_gelu.step(), rates_).ms(), floor_of(plain, rates_).ms());
}

TEST_F(FloorTest, OfWhatIsNoGemmIsItsExponentialsOrItsBytes) {
  const TensorType x{DType::kF32, {64, 32}};
  const OpRun silu(*backend_, make_spec(Op::kSilu, {x}));
  const double bytes = 2.0 * 64 * 32 * sizeof(float);
  const Yardstick* exponentials = rates_.exponentials(DType::kF32);
  ASSERT_NE(exponentials, nullptr);
  const double expected = longer_of(bytes, rates_.copy(bytes), 64 * 32, exponentials).ms();
  EXPECT_EQ(floor_of(silu, rates_).ms(), expected);
  EXPECT_EQ(floor_of(silu.step(), rates_).ms(), expected);
  EXPECT_EQ(floor_of(silu.program().graph, bytes, rates_).ms(), expected);
  // The exponentials take longer than the bytes; with no bytes to move, they are the whole floor.
  const Floor of_exp = floor_of(silu.program().graph, 0, rates_);
  EXPECT_EQ(of_exp.yardstick, exponentials) << "is measured once";
  EXPECT_DOUBLE_EQ(of_exp.ms(), 64 * 32 / exponentials->work * exponentials->ms);
}

TEST_F(FloorTest, KnowsTheRateOfExponentials) {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    const Yardstick* exponentials = rates_.exponentials(dtype);
    EXPECT_EQ(exponentials->of, "exp");
    EXPECT_GT(exponentials->work, 1e6);
    EXPECT_GT(exponentials->ms, 0);
  }
}

TEST_F(FloorTest, KnowsTheRateOfEveryArithmetic) {
  std::vector<std::string_view> all{"f32", "tf32", "bf16"};
  if (backend_->properties().target.cpu_isa >= CpuIsa::kAvx512Vnni) all.emplace_back("i8");
  for (const std::string_view arithmetic : all) {
    const Yardstick& gemm = rates_.gemm(arithmetic);
    EXPECT_EQ(gemm.of, kFloorOfFlops);
    EXPECT_GT(gemm.work, 1e9) << arithmetic;
    EXPECT_GT(gemm.ms, 0) << arithmetic;
  }
  EXPECT_THROW((void)rates_.gemm("roman"), Error);
}

TEST_F(FloorTest, CopiesAreMeasuredAsTheyGrow) {
  const Yardstick& small = rates_.copy(200);
  const Yardstick& large = rates_.copy(2e6);
  EXPECT_EQ(small.work, 200);
  EXPECT_EQ(large.work, 2 * 244 * 4096) << "is of whole pages";
  EXPECT_EQ(&rates_.copy(2e6 + 100), &large);
  small.submit();  // still valid, in buffers that have grown
  small.stream->synchronize();
}

}  // namespace
}  // namespace headroom
