#include "measure/table.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <stdexcept>

namespace headroom {
namespace {

TEST(FormatMs, ChoosesTheUnit) {
  EXPECT_EQ(format_ms(482.1), "482 ms");
  EXPECT_EQ(format_ms(1240), "1.24 s");
  EXPECT_EQ(format_ms(0.03512), "35.1 us");
  EXPECT_EQ(format_ms(0.000042), "42.0 ns");
  EXPECT_EQ(format_ms(59'000), "59.0 s");
  EXPECT_EQ(format_ms(1'200'000), "20.0 min");
  EXPECT_EQ(format_ms(12'600'000), "3.50 h");
  EXPECT_EQ(format_ms(0), "0 ms");
  EXPECT_EQ(format_ms(-1.5), "-1.50 ms");
  EXPECT_EQ(format_ms(std::numeric_limits<double>::quiet_NaN()), "nan ns");
}

TEST(FormatMs, CarriesIntoTheNextUnit) {
  EXPECT_EQ(format_ms(999.4), "999 ms");
  EXPECT_EQ(format_ms(999.6), "1.00 s");
  EXPECT_EQ(format_ms(0.9996), "1.00 ms");
  EXPECT_EQ(format_ms(59'970), "1.00 min");
}

TEST(FormatInterval, UsesOneUnit) {
  EXPECT_EQ(format_interval({1.852, 1.897}), "[1.85, 1.90]");
  EXPECT_EQ(format_interval_ms({480, 485}), "[480, 485] ms");
  EXPECT_EQ(format_interval_ms({980, 1010}), "[0.980, 1.01] s");
  EXPECT_EQ(format_interval_ms({-20, 3}), "[-20.0, 3.00] ms");
}

TEST(FormatFactor, EndsInX) {
  EXPECT_EQ(format_factor(1.87), "1.87x");
  EXPECT_EQ(format_factor(0.53217), "0.532x");
}

TEST(DisplayWidth, CountsColumnsNotBytes) {
  EXPECT_EQ(display_width(""), 0U);
  EXPECT_EQ(display_width("abc"), 3U);
  EXPECT_EQ(display_width("\u00e9t\u00e9"), 3U);  // precomposed accents
  EXPECT_EQ(display_width("e\u0301"), 1U);        // combining accent
  EXPECT_EQ(display_width("\u901f\u5ea6"), 4U);   // two ideographs
  EXPECT_EQ(display_width("\U0001F680"), 2U);     // an emoji
  EXPECT_EQ(display_width("\u2192\u00d7"), 2U);   // arrow and multiplication sign
}

TEST(DisplayWidth, CountsBrokenBytesOneByOne) {
  EXPECT_EQ(display_width("\xff"), 1U);
  EXPECT_EQ(display_width("\xe2\x82"), 2U);  // a sequence cut short
  EXPECT_EQ(display_width("\xc3(x"), 3U);
}

TEST(Table, AlignsColumns) {
  Table table;
  table.add_column("switch", Align::kLeft);
  table.add_column("time");
  table.add_column("factor");
  table.add_row({"baseline", "482 ms", "1.00x"});
  table.add_row({"\u901f\u5ea6", "9.10 ms", "53.0x"});
  table.add_rule();
  table.add_row({"all", "", "x"});
  EXPECT_EQ(table.render(),
            "switch       time  factor\n"
            "--------  -------  ------\n"
            "baseline   482 ms   1.00x\n"
            "\u901f\u5ea6      9.10 ms   53.0x\n"
            "--------  -------  ------\n"
            "all                     x\n");
}

TEST(Table, LeavesNoTrailingBlanks) {
  Table table;
  table.add_column("a", Align::kLeft);
  table.add_column("reason", Align::kLeft);
  table.add_row({"x", ""});
  EXPECT_EQ(table.render(), "a  reason\n-  ------\nx\n");
}

TEST(Table, ShowsWhatWouldSteerATerminal) {
  Table table;
  table.add_column("name", Align::kLeft);
  table.add_column("b");
  table.add_row({"\x1b[1m\n", "1"});
  EXPECT_EQ(table.render(),
            "name         b\n"
            "-----------  -\n"
            "\\x1b[1m\\x0a  1\n");
}

TEST(Table, RefusesRowsThatDoNotFit) {
  Table table;
  table.add_column("a");
  EXPECT_THROW(table.add_row({"1", "2"}), std::logic_error);
  table.add_row({"1"});
  EXPECT_THROW(table.add_column("late"), std::logic_error);
}

}  // namespace
}  // namespace headroom
