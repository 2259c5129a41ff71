#include "measure/tables/table.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <string>
#include <string_view>

namespace headroom {
namespace {

TEST(FormatInterval, SaysHowManyTrialsAreNeededWhereThereIsNone) {
  EXPECT_EQ(interval_or_reason(summarize(std::vector<double>(6, 2.0))), "[2.00, 2.00] ms");
  EXPECT_EQ(interval_or_reason(summarize(std::vector{2.0, 2.0, 3.0})), "(3 trials give no 95% interval, 6 would)");
}

TEST(FormatMs, ChoosesTheUnit) {
  EXPECT_EQ(format_ms(482.1), "482 ms");
  EXPECT_EQ(format_ms(1240), "1.24 s");
  EXPECT_EQ(format_ms(0.03512), "35.1 µs");
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
  EXPECT_EQ(format_ms(0.001), "1.00 µs") << "and not 1000 ns";
  EXPECT_EQ(format_ms(1000), "1.00 s");
}

TEST(FormatBrief, EndsInNoZeros) {
  EXPECT_EQ(format_brief(12), "12");
  EXPECT_EQ(format_brief(0.5), "0.5");
  EXPECT_EQ(format_brief(100), "100");
  EXPECT_EQ(format_brief(6e-6), "6e-6");
  EXPECT_EQ(format_brief(5.9e-6), "5.9e-6");
  EXPECT_EQ(format_brief(0), "0");
  EXPECT_EQ(format_signed(12), "+12");
  EXPECT_EQ(format_signed(-1.5e-5), "-1.5e-5");
  EXPECT_EQ(format_signed(0), "0");
}

TEST(FormatP, IsNeverZeroOrOne) {
  EXPECT_EQ(format_p(0.0004), "<0.001");
  EXPECT_EQ(format_p(0.0491), "0.049");
  EXPECT_EQ(format_p(1), ">0.999");
}

TEST(FormatInterval, UsesOneUnit) {
  EXPECT_EQ(format_interval({1.852, 1.897}), "[1.85, 1.90]");
  EXPECT_EQ(format_interval_ms({480, 485}), "[480, 485] ms");
  EXPECT_EQ(format_interval_ms({980, 1010}), "[0.98, 1.01] s");
  EXPECT_EQ(format_interval_ms({-20, 3}), "[-20.0, 3.0] ms");
}

TEST(FormatInterval, ShowsBothEndsToTheSameDigit) {
  EXPECT_EQ(format_interval_ms({503, 1002}), "[0.50, 1.00] s");
  EXPECT_EQ(format_interval_ms({0.94, 0.95}), "[940, 950] µs");
  EXPECT_EQ(format_interval({0.53, 12.4}), "[0.5, 12.4]");
  EXPECT_EQ(format_interval({-0.001, 1.25}), "[0.00, 1.25]") << "without a sign before nothing";
}

TEST(FormatInterval, HasExponentsWhereDigitsWouldBeZeros) {
  EXPECT_EQ(format_interval({0.00000602, 0.0000071}), "[6.02e-6, 7.10e-6]");
  EXPECT_EQ(format_interval({0, 0.0000071}), "[0, 7.10e-6]");
  EXPECT_EQ(format_interval({0.00000602, 0.01}), "[6.02e-6, 0.0100]") << "it is not zero";
  EXPECT_EQ(format_interval({0.0493, 148}), "[0.0493, 148]");
}

TEST(FormatInterval, TellsAnEndThatIsNotOneFromOne) {
  EXPECT_EQ(format_interval({0.996, 1.02}), "[0.996, 1.020]");
  EXPECT_EQ(format_interval({1.0004, 1.02}), "[1.0004, 1.0200]");
  EXPECT_EQ(format_interval({1, 1.02}), "[1.00, 1.02]");
}

TEST(FormatFactor, EndsInX) {
  EXPECT_EQ(format_factor(1.87), "1.87x");
  EXPECT_EQ(format_factor(0.53217), "0.532x");
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

/// A long label, three figures that may be omitted, and one that must stay.
Table wide_table() {
  Table table;
  table.add_column(Column{.header = "rung", .align = Align::kLeft, .least = 12});
  table.add_column(Column{.header = "a step", .priority = 1, .fields = {"step_ms"}});
  table.add_column(Column{.header = "95% interval", .priority = 3, .fields = {"step_low_ms", "step_high_ms"}});
  table.add_column(Column{.header = "an image", .priority = 2, .fields = {"image_ms"}});
  table.add_column(Column{.header = "95% interval", .fields = {"image_low_ms", "image_high_ms"}});
  table.add_column(Column{.header = "state", .shown = Shown::kOnlyInCsv});
  table.add_row({"arena+flash+fuse+hoist", ms_cell(1.0 / 3), interval_ms_cell(Interval{0.3, 0.4}), ms_cell(2),
                 interval_ms_cell(Interval{1.5, 2.5}), "settled"});
  table.add_row({"arena+flash+fuse+tile", ms_cell(1), no_value("unsettled"), no_value(), no_value(), "a, \"b\""});
  return table;
}

std::size_t widest_line(const std::string& text) {
  std::size_t widest = 0;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = text.find('\n', begin);
    widest = std::max(widest, display_width(std::string_view(text).substr(begin, end - begin)));
    begin = end + 1;
  }
  return widest;
}

TEST(Table, FitsEveryWidth) {
  for (std::size_t width = 30; width < 100; ++width) {
    const std::string text = wide_table().render(width);
    EXPECT_LE(widest_line(text), width) << text;
    EXPECT_NE(text.find("[1.50, 2.50] ms"), std::string::npos) << text;
  }
}

TEST(Table, LeavesOutWhatIsLeastWorthAndSaysSo) {
  EXPECT_EQ(wide_table().render(58, "--format csv has all"),
            "rung                     a step  an image     95% interval\n"
            "----------------------  -------  --------  ---------------\n"
            "arena+flash+fuse+hoist   333 µs   2.00 ms  [1.50, 2.50] ms\n"
            "arena+flash+fuse+tile   1.00 ms         -                -\n"
            "not shown in 58 columns: 95% interval (a step) (--format\n"
            "  csv has all)\n");
}

TEST(Table, TakesSeveralLinesForALabelAndCutsNone) {
  EXPECT_EQ(wide_table().render(44),
            "rung                 a step     95% interval\n"
            "------------------  -------  ---------------\n"
            "arena+flash+fuse+    333 µs  [1.50, 2.50] ms\n"
            "  hoist\n"
            "arena+flash+fuse+   1.00 ms                -\n"
            "  tile\n"
            "not shown in 44 columns: 95% interval (a\n"
            "  step), an image\n");
}

TEST(Table, BreaksWordsLast) {
  Table table;
  table.add_column(Column{.header = "verdict", .align = Align::kLeft, .least = 12});
  table.add_column(Column{.header = "why", .align = Align::kLeft, .least = 12});
  table.add_row({"INCONCLUSIVE", "not so few of them"});
  EXPECT_EQ(table.render(20),
            "verdict       why\n"
            "------------  ------\n"
            "INCONCLUSIVE  not so\n"
            "              few of\n"
            "              them\n");
}

TEST(Table, GivesRoomToWordsBeforeLinesOfSeveral) {
  Table table;
  table.add_column("folder", Align::kLeft);
  table.add_column("class", Align::kLeft);
  table.add_column("passes", Align::kLeft);
  table.add_row(
      {"tests/goldens/pipelines/flux-dev", "StableDiffusionXLPipeline", "encode, penultimate, hidden-states"});
  const std::string text = table.render(60);
  EXPECT_NE(text.find("StableDiffusionXLPipeline"), std::string::npos) << text;
  EXPECT_NE(text.find("penultimate,"), std::string::npos) << text;
}

TEST(Table, IsNotChangedWhereItFits) {
  EXPECT_EQ(wide_table().render(), wide_table().render(200));
  EXPECT_EQ(wide_table().render().find("not shown"), std::string::npos);
}

TEST(Table, IsWholeAsCsv) {
  EXPECT_EQ(wide_table().to_csv(),
            "rung,step_ms,step_low_ms,step_high_ms,image_ms,image_low_ms,image_high_ms,state\n"
            "arena+flash+fuse+hoist,0.3333333333333333,0.3,0.4,2,1.5,2.5,settled\n"
            "arena+flash+fuse+tile,1,,,,,,\"a, \"\"b\"\"\"\n");
}

TEST(Table, NamesTheFieldsOfCsvAfterHeaders) {
  Table table;
  table.add_column("new/base");
  table.add_column("GB/s");
  table.add_row({"1", "-"});
  EXPECT_EQ(table.to_csv(), "new_base,gb_s\n1,\n");
}

TEST(Table, EscapesWhatMarkdownAndLatexReadAsMarkup) {
  Table table;
  table.add_column("a|b", Align::kLeft);
  table.add_column("95% interval");
  table.add_row({"x_1 & <b> {50%} #1 ~^\\ [y](z)", "[1.50, 2.50] µs"});
  table.add_rule();
  table.add_row({"[b", "-"});
  EXPECT_EQ(table.to_markdown(),
            "| a\\|b | 95% interval |\n"
            "|---|--:|\n"
            "| x_1 \\& \\<b\\> {50%} \\#1 \\~^\\\\ \\[y\\](z) | [1.50, 2.50] µs |\n"
            "| [b | - |\n");
  EXPECT_EQ(
      table.to_latex(),
      "\\begin{tabular}{lr}\n"
      "\\toprule\n"
      "a\\textbar{}b & 95\\% interval \\\\\n"
      "\\midrule\n"
      "x\\_1 \\& \\textless{}b\\textgreater{} \\{50\\%\\} \\#1 \\textasciitilde{}\\textasciicircum{}\\textbackslash{} "
      "{[}y](z) & {[}1.50, 2.50] \\textmu{}s \\\\\n"
      "\\midrule\n"
      "{[}b & -- \\\\\n"
      "\\bottomrule\n"
      "\\end{tabular}\n");
}

TEST(Table, RefusesACellWithOtherValuesThanItsColumnHasFields) {
  Table table;
  table.add_column(Column{.header = "95% interval", .fields = {"low_ms", "high_ms"}});
  EXPECT_THROW(table.add_row({"1"}), std::logic_error);
  table.add_row({no_value()});
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
