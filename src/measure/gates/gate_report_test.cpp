#include "measure/gates/gate_report.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace headroom {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

GateReport gate_of_four() {
  return {.command = "headroom compare",
          .columns = {"base", "new"},
          .lines = {{.name = "m fast",
                     .quantity = "time",
                     .cells = {"10 ms", "10 ms"},
                     .verdict = "OK",
                     .why = "at most 1% slower"},
                    {.name = "m fast",
                     .quantity = "peak memory",
                     .cells = {"1 GiB", "2 GiB"},
                     .verdict = "REGRESSED",
                     .why = "100% more",
                     .outcome = GateOutcome::kFailed},
                    {.name = "m fast",
                     .quantity = "weights",
                     .cells = {"1 GiB", "1 GiB"},
                     .verdict = "OK",
                     .why = "equal",
                     .is_unchanged = true},
                    {.name = "m fast",
                     .quantity = "p99",
                     .cells = {"11 ms", "12 ms"},
                     .verdict = "INCONCLUSIVE",
                     .why = "too few trials",
                     .outcome = GateOutcome::kLeftOut}},
          .notes = {"a note"},
          .summary = "one against another"};
}

/// A benchmark whose name attacks all three formats.
GateReport hostile_gate() {
  GateReport one = gate_of_four();
  one.lines[1].name = "x\r\n::error::pwned%0A,a:b <b>&\"|`@team`\xef\xbf\xbf";
  one.lines[1].why = "why\n::set-output name=a::b";
  return one;
}

TEST(GateReport, BreaksNoVerdictInANarrowTerminal) {
  GateReport report = gate_of_four();
  report.columns = {"base", "new", "new/base", "95% interval", "p", "processes"};
  for (GateLine& line : report.lines) {
    line.name = "stable-diffusion-xl-base arena+flash+fuse+hoist+int8+tile+steps=14";
    line.quantity = "PSNR (the teacher's pictures)";
    line.cells = {"9.99 ms", "10.1 ms", "+10.0 points", "[-10.0, +10.0] points", "<0.001", "8, 8"};
    line.outcome = GateOutcome::kUndecided;
  }
  report.lines[0].verdict = "NOT MEASURED";
  report.lines[1].verdict = "INCONCLUSIVE";
  report.lines[1].why =
      "the base is unsettled: other work held the CPUs: threads waited for one for 40% of a typical pass";
  for (const std::size_t columns : {80U, 120U}) {
    const std::string text = gate_table(report).to_string(TableFormat::kText, columns);
    for (const char* verdict : {"NOT MEASURED", "INCONCLUSIVE", "teacher's"})
      EXPECT_THAT(text, HasSubstr(verdict)) << text;
    for (std::size_t begin = 0, end = 0; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1)
      EXPECT_LE(end - begin, columns) << text;
  }
}

TEST(GateReport, EndsWithTheWorstOutcome) {
  GateReport one = gate_of_four();
  EXPECT_EQ(exit_code_of(one), ExitCode::kRegression);
  one.lines[1].outcome = GateOutcome::kUndecided;
  EXPECT_EQ(exit_code_of(one), ExitCode::kInconclusive);
  one.lines[1].outcome = GateOutcome::kPassed;
  EXPECT_EQ(exit_code_of(one), ExitCode::kOk) << "what was left out is no reason to stop";
}

TEST(GateReport, TableCountsWhatIsUnchangedAndSaysWhatWasLeftOut) {
  const std::string table = gate_table(gate_of_four()).text();
  EXPECT_THAT(table, AllOf(HasSubstr("peak memory"), HasSubstr("REGRESSED"), HasSubstr("unchanged: weights of 1\n"),
                           HasSubstr("p99 of m fast is INCONCLUSIVE: too few trials\n"), HasSubstr("a note\n"),
                           HasSubstr("one against another\n")));
  EXPECT_THAT(table, Not(HasSubstr("equal")));
  GateReport of_two = gate_of_four();
  of_two.lines.push_back(of_two.lines.back());
  of_two.lines.back().why = "another reason";
  EXPECT_THAT(gate_table(of_two).text(), HasSubstr("p99 of m fast is INCONCLUSIVE: too few trials; 1 more is\n"))
      << "the reason is that of the named one";
}

TEST(GateReport, MarkdownTellsWhatFailedFirstAndFoldsTheRest) {
  const std::string text = gate_markdown(std::vector{gate_of_four()});
  EXPECT_THAT(text, HasSubstr("### headroom compare: 1 of 4 failed\n"));
  EXPECT_THAT(text, HasSubstr("| m fast | peak memory | 1 GiB | 2 GiB | **REGRESSED** | 100% more |\n"));
  EXPECT_LT(text.find("REGRESSED"), text.find("<details><summary>3 others</summary>"));
  const std::string attacked = gate_markdown(std::vector{hostile_gate()});
  EXPECT_THAT(attacked,
              AllOf(Not(HasSubstr("\n::error")), HasSubstr("\\<b\\>"), HasSubstr("\\|"), HasSubstr("\\@team")));
}

TEST(GateReport, AnnotationsEscapeWhatEndsThem) {
  const std::string text = gate_annotations(std::vector{hostile_gate()});
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1) << text;
  EXPECT_THAT(text, testing::StartsWith("::error title=x%0D%0A%3A%3Aerror%3A%3Apwned%250A%2Ca%3Ab <b>&"));
  EXPECT_THAT(text, testing::EndsWith(" peak memory%3A REGRESSED::why%0A::set-output name=a::b\n"));
  GateReport unclear = gate_of_four();
  unclear.lines[1].outcome = GateOutcome::kUndecided;
  EXPECT_THAT(gate_annotations(std::vector{unclear}),
              testing::StartsWith("::warning title=m fast peak memory%3A REGRESSED::100%25 more\n"));
}

TEST(GateReport, JunitEscapesAndCounts) {
  const std::string text = gate_junit(std::vector{hostile_gate()});
  EXPECT_THAT(text,
              HasSubstr("<testsuite name=\"headroom compare\" tests=\"4\" failures=\"1\" errors=\"0\" skipped=\"1\">"));
  EXPECT_THAT(text, HasSubstr("&lt;b&gt;&amp;&quot;|"));
  EXPECT_THAT(text, Not(HasSubstr("<b>")));
  EXPECT_THAT(text, Not(HasSubstr("\xef\xbf\xbf")));
  EXPECT_THAT(text, HasSubstr("<skipped message=\"INCONCLUSIVE: too few trials\"/>"));
}

TEST(GateReport, JsonHasTheColumnsByName) {
  const nlohmann::json document = gate_json(gate_of_four());
  EXPECT_EQ(document["schema"], "headroom.gate/1");
  EXPECT_EQ(document["lines"][1]["new"], "2 GiB");
  EXPECT_EQ(document["lines"][1]["verdict"], "REGRESSED");
}

}  // namespace
}  // namespace headroom
