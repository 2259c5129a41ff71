#include "doctor/checks.hpp"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>
#include <set>

#include "base/test_paths.hpp"
#include "base/text/json.hpp"
#include "doctor/report.hpp"
#include "doctor/test_util.hpp"

namespace headroom::doctor {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const std::filesystem::path kSource = source_dir(kSourceDir);

TEST(Checks, HaveDifferentIdsAndSayWhatTheyDo) {
  std::set<std::string_view> ids;
  for (const CheckText& check : all_checks()) {
    EXPECT_TRUE(ids.insert(check.id).second) << check.id << " is there twice";
    EXPECT_EQ(check.id.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-"), std::string_view::npos) << check.id;
    EXPECT_FALSE(check.family.empty() || check.finds.empty() || check.source.empty() || check.mend.empty()) << check.id;
  }
  EXPECT_GE(ids.size(), 30U);
}

TEST(Checks, AreThoseOfTheDocument) {
  EXPECT_THAT(read_file(kSource / "docs/commands/doctor.md"), HasSubstr("\n" + checks_as_markdown() + "\n"))
      << "put the output of `headroom doctor --list` into docs/commands/doctor.md";
}

Finding finding(const char* id, Severity severity) {
  return {.id = id,
          .severity = severity,
          .sentence = "It is slow.",
          .evidence = {{"/proc/x", "1", "2"}},
          .mend = "echo 2 >/proc/x",
          .cost = {.words = "all work takes twice as long",
                   .factor = severity == Severity::kWrong ? std::optional(2.0) : std::nullopt}};
}

TEST(ExitCodes, AreThoseOfTheWorstFinding) {
  const Finding wrong = finding("a", Severity::kWrong), could = finding("b", Severity::kCould),
                unknown = finding("c", Severity::kUnknown);
  const auto code = [](const std::vector<Finding>& findings, const std::vector<std::string>& fail_on = {}) {
    return exit_code_of(findings, fail_on);
  };
  EXPECT_EQ(code({}), ExitCode::kOk);
  EXPECT_EQ(code({could}), ExitCode::kOk);
  EXPECT_EQ(code({could, unknown}), ExitCode::kInconclusive);
  EXPECT_EQ(code({unknown, wrong}), ExitCode::kRegression);
  EXPECT_EQ(code({unknown, wrong, could}, {"b"}), ExitCode::kRegression);
  EXPECT_EQ(code({unknown, wrong}, {"b", "d"}), ExitCode::kOk);
}

TEST(SeverityOfACost, IsWrongAboveFivePercent) {
  EXPECT_EQ(severity_of(1.05), Severity::kCould);
  EXPECT_EQ(severity_of(1.06), Severity::kWrong);
}

TEST(Report, ShowsTheEvidenceOfEachFindingTheWorstFirst) {
  Report report = {.facts = {{"cpu", "model", "Example"}},
                   .findings = {finding("b", Severity::kCould), finding("a", Severity::kWrong)}};
  sort_by_severity(report.findings);
  EXPECT_EQ(to_printout(report).text(),
            "of   fact   value\n"
            "---  -----  -------\n"
            "cpu  model  Example\n"
            "\nwrong a: It is slow.\n"
            "  seen     /proc/x: 1; expected: 2\n"
            "  mend     echo 2 >/proc/x\n"
            "  if left  all work takes twice as long\n"
            "\ncould b: It is slow.\n"
            "  seen     /proc/x: 1; expected: 2\n"
            "  mend     echo 2 >/proc/x\n"
            "  if left  all work takes twice as long\n"
            "\n2 findings: 1 wrong, 1 could be better, 0 unknown\n");
  const nlohmann::json json = to_json(report);
  EXPECT_EQ(json.at("findings")[0].at("cost").at("factor"), 2.0);
  EXPECT_FALSE(json.at("findings")[1].at("cost").contains("factor"));
}

TEST(Report, AgreesWithItsSchema) {
  const TempFolder folder;
  const Report report = {.facts = {{"cpu", "model", "Example"}}, .findings = {finding("a", Severity::kWrong)}};
  const auto is_valid = [&](const nlohmann::json& document) {
    write_json(folder / "report.json", document);
    const std::string command =
        "python3 -W ignore -c 'import json, sys, jsonschema; "
        "jsonschema.validate(json.load(open(sys.argv[1])), json.load(open(sys.argv[2])))' " +
        (folder / "report.json").string() + " " + (kSource / "docs/doctor.schema.json").string() + " 2>/dev/null";
    return std::system(command.c_str()) == 0;
  };
  nlohmann::json document = to_json(report);
  EXPECT_TRUE(is_valid(document));
  document["findings"][0]["severity"] = "bad";
  EXPECT_FALSE(is_valid(document));
}

}  // namespace
}  // namespace headroom::doctor
