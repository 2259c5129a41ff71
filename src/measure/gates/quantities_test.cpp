#include "measure/gates/quantities.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.hpp"
#include "base/test_util.hpp"

namespace headroom {
namespace {

using testing::HasSubstr;

std::string refusal_of_limits(const char* list) {
  try {
    (void)parse_limits(list, "--limit");
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kUsage);
    return error.what();
  }
  return "";
}

TEST(Limits, AreTheDefaultsUnlessGiven) {
  const Limits limits = parse_limits("memory=10%,psnr=1dB,p99=off", "--limit");
  EXPECT_DOUBLE_EQ(limits.of(Quantity::kMemory), 0.10);
  EXPECT_DOUBLE_EQ(limits.of(Quantity::kPsnr), 1);
  EXPECT_DOUBLE_EQ(limits.of(Quantity::kSize), 0.02);
  EXPECT_TRUE(limits.is_asked(Quantity::kMemory));
  EXPECT_FALSE(limits.is_asked(Quantity::kSize));
  EXPECT_TRUE(limits.is_off(Quantity::kP99));
  EXPECT_FALSE(limits.is_off(Quantity::kPsnr));
}

TEST(Limits, RefuseWhatTheyDoNotKnow) {
  EXPECT_THAT(refusal_of_limits("memroy=5%"), HasSubstr("no quantity 'memroy'"));
  EXPECT_THAT(refusal_of_limits("memory"), HasSubstr("not a quantity and its limit"));
  EXPECT_THAT(refusal_of_limits("memory=5"), HasSubstr("not a share"));
  EXPECT_THAT(refusal_of_limits("psnr=5%"), HasSubstr("not a number of dB"));
  EXPECT_THAT(refusal_of_limits("psnr=-1dB"), HasSubstr("over zero"));
  EXPECT_THAT(refusal_of_limits("size=5%,size=6%"), HasSubstr("size has two limits"));
  EXPECT_THAT(refusal_of_limits("time=off"), HasSubstr("cannot be turned off"));
  EXPECT_THAT(refusal_of_limits("memory=5%,"), HasSubstr("''"));
}

TEST(Limits, AreWrittenWithTheirUnits) {
  EXPECT_EQ(format_limit(Quantity::kTime, 0.05), "5%");
  EXPECT_EQ(format_limit(Quantity::kAccuracy, 0.01), "1 point");
  EXPECT_EQ(format_limit(Quantity::kAccuracy, 0.005), "0.5 points");
  EXPECT_EQ(format_limit(Quantity::kPsnr, 0.5), "0.5 dB");
}

TEST(Quantities, EachHasItsPlaceInTheTable) {
  for (const QuantityInfo& info : all_quantities()) {
    EXPECT_EQ(&info_of(info.quantity), &info);
    EXPECT_EQ(find_quantity(info.name), &info);
    if (!info.metric.empty()) {
      EXPECT_EQ(find_metric_quantity(info.metric), &info);
    }
  }
  EXPECT_EQ(find_metric_quantity(""), nullptr);
}

}  // namespace
}  // namespace headroom
