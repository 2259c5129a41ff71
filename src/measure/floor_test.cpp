#include "measure/floor.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "measure/result.hpp"

namespace headroom {
namespace {

/// One launch is enough of a time for a test.
const Protocol kOnce{.warmup_min = 0, .warmup_max = 0, .trials = 1};

class FloorTest : public testing::Test {
 protected:
  OpSpec attention(std::int64_t tokens) {
    const TensorType operand{DType::kF32, {1, 2, tokens, 64}};
    return infer_spec({.op = Op::kAttention,
                       .attributes = Attributes(Op::kAttention, {}),
                       .inputs = {operand, operand, operand},
                       .outputs = {},
                       .is_weight = {}});
  }
  OpSpec linear(const std::string& activation) {
    return infer_spec({.op = Op::kLinear,
                       .attributes = Attributes(Op::kLinear, {{"activation", activation}}),
                       .inputs = {{DType::kF32, {64, 32}}, {DType::kF32, {48, 32}}},
                       .outputs = {},
                       .is_weight = {false, true}});
  }

  std::unique_ptr<Backend> backend_ = make_backend(DeviceKind::kCpu, 1);
  MachineRates rates_{*backend_, kOnce};
};

TEST(LongerOf, TakesFlopsOrBytesAtTheRateOfTheirYardstick) {
  const Yardstick product{.of = kFloorOfFlops, .work = 1000, .ms = 2};  // 500 FLOPs a ms
  const Yardstick copy{.of = kFloorOfCopy, .work = 100, .ms = 4};       // 25 bytes a ms
  const Floor by_flops = longer_of(3000, &product, 100, copy);
  EXPECT_EQ(by_flops.ms(), 6);
  EXPECT_EQ(by_flops.yardstick->of, "flops");
  const Floor by_bytes = longer_of(3000, &product, 200, copy);
  EXPECT_EQ(by_bytes.ms(), 8);
  EXPECT_EQ(by_bytes.yardstick->of, "copy");
  EXPECT_EQ(longer_of(0, nullptr, 50, copy).ms(), 2);
}

TEST_F(FloorTest, AttentionsIsItsFlopsOrItsBytes) {
  const OpRun run(*backend_, attention(256));
  const double flops = 4.0 * 2 * 256 * 256 * 64, bytes = 4.0 * 2 * 256 * 64 * sizeof(float);
  const Yardstick& product = rates_.product("f32");
  const Yardstick& copy = rates_.copy(bytes);
  EXPECT_EQ(copy.work, bytes);
  EXPECT_EQ(floor_of(run.step(), rates_).ms(), longer_of(flops, &product, bytes, copy).ms());
  EXPECT_EQ(&rates_.product("f32"), &product) << "is measured once";
}

TEST_F(FloorTest, IsOfTheWorkAndNotOfHowItIsDone) {
  const OpRun whole(*backend_, attention(64)), apart(*backend_, attention(64), OpForm::kApart);
  ASSERT_GT(apart.program().steps.size(), 1U);
  EXPECT_EQ(floor_of(whole, rates_).ms(), floor_of(apart, rates_).ms());
  const OpRun plain(*backend_, linear("none")), with_gelu(*backend_, linear("gelu_tanh"));
  EXPECT_EQ(floor_of(with_gelu, rates_).ms(), floor_of(plain, rates_).ms());
  EXPECT_EQ(floor_of(with_gelu.step(), rates_).ms(), floor_of(plain, rates_).ms());
}

TEST_F(FloorTest, KnowsTheRateOfEveryArithmetic) {
  std::vector<std::string_view> all{"f32", "tf32", "bf16"};
  if (backend_->properties().target.cpu_isa >= CpuIsa::kAvx512Vnni) all.emplace_back("i8");
  for (const std::string_view arithmetic : all) {
    const Yardstick& product = rates_.product(arithmetic);
    EXPECT_EQ(product.of, kFloorOfFlops);
    EXPECT_GT(product.work, 1e9) << arithmetic;
    EXPECT_GT(product.ms, 0) << arithmetic;
  }
  EXPECT_THROW((void)rates_.product("roman"), Error);
}

TEST_F(FloorTest, CopiesAreMeasuredAsTheyGrow) {
  const Yardstick& small = rates_.copy(200);
  const Yardstick& large = rates_.copy(2e6);
  EXPECT_EQ(small.work, 200);
  EXPECT_EQ(large.work, 2 * 244 * 4096) << "is of whole pages";
  EXPECT_EQ(&rates_.copy(2e6 + 100), &large);
  small.submit();  // still there, in buffers that have grown
  small.stream->synchronize();
}

}  // namespace
}  // namespace headroom
