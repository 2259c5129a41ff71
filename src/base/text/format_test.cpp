#include "base/text/format.hpp"

#include <gtest/gtest.h>

#include <limits>

namespace headroom {
namespace {

TEST(FormatSignificant, KeepsThreeDigits) {
  EXPECT_EQ(format_significant(1.8749), "1.87");
  EXPECT_EQ(format_significant(12.34), "12.3");
  EXPECT_EQ(format_significant(123.4), "123");
  EXPECT_EQ(format_significant(1234.6), "1235");
  EXPECT_EQ(format_significant(0.012345), "0.0123");
  EXPECT_EQ(format_significant(-0.5), "-0.500");
  EXPECT_EQ(format_significant(0), "0");
}

TEST(FormatSignificant, RoundsBeforeItCountsDigits) {
  EXPECT_EQ(format_significant(9.996), "10.0");
  EXPECT_EQ(format_significant(99.96), "100");
  EXPECT_EQ(format_significant(0.99951), "1.00");
}

TEST(FormatSignificant, HasAnExponentWhereDigitsWouldBeZeros) {
  EXPECT_EQ(format_significant(0.00000602), "6.02e-6");
  EXPECT_EQ(format_significant(-0.00012), "-1.20e-4");
  EXPECT_EQ(format_significant(0.0009996), "0.00100") << "rounding comes first";
  EXPECT_EQ(format_significant(9.999e-5), "1.00e-4");
  EXPECT_EQ(format_significant(31'092'264), "31092264");
  EXPECT_EQ(format_significant(2.8e296), "2.80e296");
}

TEST(FormatSignificant, NamesWhatIsNoNumber) {
  EXPECT_EQ(format_significant(std::numeric_limits<double>::quiet_NaN()), "nan");
  EXPECT_EQ(format_significant(-std::numeric_limits<double>::infinity()), "-inf");
}

TEST(FormatBytes, UsesBinaryUnits) {
  EXPECT_EQ(format_bytes(0), "0 B");
  EXPECT_EQ(format_bytes(512), "512 B");
  EXPECT_EQ(format_bytes(1023), "1023 B");
  EXPECT_EQ(format_bytes(1024), "1.00 KiB");
  EXPECT_EQ(format_bytes(12'897'485), "12.3 MiB");
  EXPECT_EQ(format_bytes((1U << 20U) - 1), "1.00 MiB");
  EXPECT_EQ(format_bytes(std::uint64_t{141} << 30U), "141 GiB");
}

TEST(FormatCount, OfOneIsSingular) {
  EXPECT_EQ(format_count(0, "step"), "0 steps");
  EXPECT_EQ(format_count(1, "step"), "1 step");
  EXPECT_EQ(format_count(28, "step"), "28 steps");
  EXPECT_EQ(format_count(1, "launch"), "1 launch");
  EXPECT_EQ(format_count(2, "launch"), "2 launches");
  EXPECT_EQ(format_count(3, "process"), "3 processes");
}

}  // namespace
}  // namespace headroom
