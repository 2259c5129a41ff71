#include "report/plots/option.hpp"

#include <gtest/gtest.h>

namespace headroom {
namespace {

TEST(Exact, HasTheDigitsOfAMeasurement) {
  EXPECT_EQ(exact(521.8800924999999, "ms"), "521.8801 ms");
  EXPECT_EQ(exact(1.0 / 3, "ms"), "0.3333333 ms");
  EXPECT_EQ(exact(Interval{248.0000000001, 259.25}, "ms"), "248 to 259.25 ms");
}

TEST(Exact, HasAllDigitsOfWholeNumbers) {
  EXPECT_EQ(exact(1073741824, "B"), "1073741824 B");
  EXPECT_EQ(exact(1073741824.5, "B/s"), "1073741824 B/s") << "the whole part of a large one";
  EXPECT_EQ(exact(0, "ms"), "0 ms");
}

TEST(Exact, WritesExponentsAsLabelsDo) {
  EXPECT_EQ(exact(0.00000602, ""), "6.02e-6");
  EXPECT_EQ(label_ms(1e300), "2.78e293 h");
  EXPECT_EQ(label_bytes(1e30), "1.00e30 B");
}

TEST(LabelMs, SpellsUnitsAsTablesDo) {
  EXPECT_EQ(label_ms(0.0351), "35.1 µs");
  EXPECT_EQ(label_ms(0.001), "1.00 µs");
}

}  // namespace
}  // namespace headroom
