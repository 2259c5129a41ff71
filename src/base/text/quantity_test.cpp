#include "base/text/quantity.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.hpp"

namespace headroom {
namespace {

TEST(Quantity, ReadsShares) {
  EXPECT_DOUBLE_EQ(parse_share("5%", "--threshold"), 0.05);
  EXPECT_DOUBLE_EQ(parse_share("0.05", "--threshold"), 0.05);
  EXPECT_DOUBLE_EQ(parse_share("0.5%", "--threshold"), 0.005);
  for (const char* text : {"5", "100%", "0", "-5%", "5 %", "%", "", "5%x", "nan", "inf%", "1", "1e-323%", "1e400"})
    EXPECT_THROW((void)parse_share(text, "--threshold"), Error) << text;
}

TEST(Quantity, ReadsBudgets) {
  EXPECT_DOUBLE_EQ(parse_budget_ms("40ms", "--budget"), 40);
  EXPECT_DOUBLE_EQ(parse_budget_ms("25fps", "--budget"), 40);
  EXPECT_DOUBLE_EQ(parse_budget_ms("25/s", "--budget"), 40);
  EXPECT_DOUBLE_EQ(parse_budget_ms("1.5s", "--budget"), 1500);
  EXPECT_DOUBLE_EQ(parse_budget_ms("800us", "--budget"), 0.8);
  EXPECT_DOUBLE_EQ(parse_budget_ms("800\u00b5s", "--budget"), 0.8);
  for (const char* text :
       {"40", "ms", "0ms", "-1ms", "40 ms", "25FPS", "infms", "", "nanms", "1e308s", "1e-310fps", "5e-324us"})
    EXPECT_THROW((void)parse_budget_ms(text, "--budget"), Error) << text;
}

TEST(Quantity, NamesOptionAndValue) {
  try {
    (void)parse_budget_ms("fast", "--budget");
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "--budget: 'fast' is neither a latency such as 40ms nor a rate such as 25fps");
    EXPECT_EQ(error.code(), ExitCode::kUsage);
  }
}

}  // namespace
}  // namespace headroom
