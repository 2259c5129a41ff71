// What commands print fits the terminal, and tables are files that other programs read.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "base/test_paths.hpp"
#include "base/text/json.hpp"
#include "measure/probes/machine.hpp"
#include "measure/results/result.hpp"
#include "measure/tables/wrap.hpp"
#include "media/video/test_video.hpp"
#include "media/video/video.hpp"
#include "program_fixture.hpp"

namespace headroom {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;
using testing::Not;

const std::string kTinyFlux = std::string(kSourceDir) + "/tests/goldens/flux/tiny-guidance";
const std::string kPipeline = std::string(kSourceDir) + "/tests/goldens/pipelines/sd-1.5";
const std::string kStream = std::string(kSourceDir) + "/tests/goldens/live_stream/three-levels";
const std::string kSmallest = " --token-rows 4 --token-columns 4 --batch 1 --trials 3 ";

using CsvRow = std::vector<std::string>;

/// RFC 4180. A quote where none may be ends the text, so that the last row is not what was written.
std::vector<CsvRow> parse_csv(std::string_view text) {
  std::vector<CsvRow> rows;
  while (!text.empty()) {
    CsvRow row;
    for (bool more = true; more;) {
      std::string field;
      if (text.starts_with('"')) {
        text.remove_prefix(1);
        for (; !text.empty() && (text[0] != '"' || text.substr(0, 2) == "\"\""); text.remove_prefix(1)) {
          if (text[0] == '"') text.remove_prefix(1);
          field += text[0];
        }
        text.remove_prefix(std::min<std::size_t>(1, text.size()));
      } else {
        const std::size_t end = std::min(text.find_first_of(",\n"), text.size());
        field = text.substr(0, end);
        text.remove_prefix(end);
      }
      row.push_back(field);
      more = text.starts_with(',');
      text.remove_prefix(std::min<std::size_t>(1, text.size()));
    }
    rows.push_back(row);
  }
  return rows;
}

/// The values under a header.
std::vector<std::string> column_of(const std::vector<CsvRow>& rows, const std::string& name) {
  const auto at = std::ranges::find(rows.at(0), name) - rows.at(0).begin();
  std::vector<std::string> values;
  if (at < std::ssize(rows.at(0)))
    for (std::size_t i = 1; i < rows.size(); ++i) values.push_back(rows[i].at(static_cast<std::size_t>(at)));
  if (values.empty()) throw std::runtime_error("no column " + name);
  return values;
}

class TablesTest : public ProgramTest {
 protected:
  [[nodiscard]] Outcome in_columns(int columns, const std::string& arguments) const {
    return run("COLUMNS=" + std::to_string(columns) + " " + kHeadroomBinary + " " + arguments);
  }

  /// What it prints fits in 80 and in 120 columns.
  void fits(const std::string& arguments) const {
    for (const int columns : {80, 120}) {
      const Outcome outcome = in_columns(columns, arguments);
      EXPECT_THAT(outcome.code, testing::AnyOf(0, 3, 4)) << arguments << "\n" << outcome.err;
      EXPECT_THAT(outcome.out, Not(testing::IsEmpty())) << arguments;
      std::istringstream lines(outcome.out);
      for (std::string line; std::getline(lines, line);)
        EXPECT_LE(display_width(line), static_cast<std::size_t>(columns)) << arguments << "\n" << line;
    }
  }

  /// Rows of equal length, of which there are at least two.
  [[nodiscard]] std::vector<CsvRow> csv(const std::string& arguments) const {
    const Outcome outcome = headroom(arguments + " --format csv -q");
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    std::vector<CsvRow> rows = parse_csv(outcome.out);
    EXPECT_GE(rows.size(), 2U) << outcome.out;
    for (const CsvRow& row : rows) EXPECT_EQ(row.size(), rows[0].size()) << outcome.out;
    return rows;
  }

  /// A result of a model with a long name under switches with long names, in 8 processes around `ms`.
  [[nodiscard]] Result result_of(const std::string& name, double ms) const {
    std::vector<Trials> processes;
    for (std::int64_t process = 0; process < 8; ++process)
      processes.push_back(
          {.wall_ms = {ms, 1.01 * ms, 0.99 * ms, ms * (1 + 0.001 * static_cast<double>(process))}, .process = process});
    Result result;
    result.id = result.name = name;
    result.subject = {.kind = SubjectKind::kModel, .name = "stable-diffusion-xl-base", .request = {{"batch", 1}}};
    result.source = {.name = "headroom", .version = "1"};
    result.configuration.device = "cpu";
    result.trials = {make_series("forward", processes)};
    return result;
  }
  void write(const std::string& name, std::vector<Result> results, const std::string& revision = "") const {
    ResultFile file_of;
    file_of.created = utc_now();
    file_of.machine = describe_machine();
    if (!revision.empty()) {
      file_of.created = "2026-01-" + revision.substr(3) + "T00:00:00Z";
      file_of.machine.build->git_revision = revision;
    }
    file_of.results = std::move(results);
    write_results(file(name), file_of);
  }
  void write_two() const {
    write("a.json", {result_of("baseline", 10), result_of("arena+flash+fuse+hoist+int8+tile+steps=14", 5)});
    write("b.json", {result_of("baseline", 11), result_of("arena+flash+fuse+hoist+int8+tile+steps=14", 5)});
  }
  /// Ten revisions, slower from the seventh on, and one benchmark of the last alone.
  [[nodiscard]] std::string write_history() const {
    fs::create_directory(folder() / "nightly");
    for (int i = 0; i < 10; ++i) {
      std::vector<Result> results = {result_of("arena+flash+fuse+hoist+int8", i < 6 ? 10 + 0.01 * i : 12 + 0.01 * i)};
      if (i == 9) results.push_back(result_of("baseline", 20));
      write("nightly/" + std::to_string(i) + ".json", results, "rev" + std::to_string(10 + i));
    }
    return file("nightly");
  }
};

TEST_F(TablesTest, HelpFits) {
  const Outcome help = headroom("--help");
  std::istringstream lines(help.out.substr(help.out.find("Subcommands:")));
  std::vector<std::string> commands = {""};
  for (std::string line; std::getline(lines, line);)
    if (line.starts_with("  ") && line.size() > 2 && line[2] != ' ')
      commands.push_back(line.substr(2, line.find(' ', 2) - 2));
  ASSERT_GE(commands.size(), 14U);
  for (const std::string& command : commands) fits(command + " --help");
}

TEST_F(TablesTest, TablesOfModelsAndPlansFit) {
  fits("models");
  fits("models " + kPipeline);
  fits("plan " + kTinyFlux + " --token-rows 4 --token-columns 4 -q");
  fits("plan " + kTinyFlux + " --token-rows 4 --token-columns 4 --rejections -q");
  fits("plan " + kTinyFlux + " --token-rows 4 --token-columns 4 --memory -q");
}

TEST_F(TablesTest, TablesOfMeasurementsFit) {
  fits("ladder " + kTinyFlux + kSmallest + "--max-rounds 2 --opt arena,flash,fuse,hoist,tile -q");
  fits("ladder " + kPipeline + " --batch 1 --steps 2 --trials 3 --max-rounds 2 --opt arena,fuse --ends --floors -q");
  fits("sweep " + kTinyFlux +
       " --steps 1,2 --batch 1 --trials 3 --opt baseline --opt arena,flash,fuse,hoist,tile --out " +
       file("sweep.json") + " -q");
  fits("profile " + kTinyFlux + kSmallest + "-q");
  fits("profile " + kTinyFlux + kSmallest + "--every-launch -q");
  fits("profile " + kTinyFlux + kSmallest + "--by-module -q");
}

TEST_F(TablesTest, TablesOfBenchmarksFit) {
  const std::string small = " --token-rows 4 --token-columns 4 --trials 3 -q";
  fits("bench " + kTinyFlux + " --opt arena,flash,fuse" + small);
  fits("bench " + kTinyFlux + " --opt arena,flash,fuse --processes 2 --budget 1s" + small);
  fits("bench " + kTinyFlux + " --against " + kHeadroomBinary + " --processes 6 --max-processes 6" + small);
  fits("bench " + kPipeline + " --pass request --opt steps=2 --trials 3 --floors -q");
  fits("bench kernels --filter 'silu_mul f32|linear f32' --rounds 2 --max-seconds 1 -q");
}

TEST_F(TablesTest, TablesOfStreamsFit) {
  constexpr VideoFormat kInput{.width = 16, .height = 16, .rate = {30, 1}};
  const auto writer = open_video_writer(file("in.y4m"), kInput);
  std::vector<std::uint8_t> rgb(kInput.frame_bytes());
  for (std::int64_t i = 0; i < 4; ++i) {
    draw_test_frame(kInput, i, rgb);
    writer->write(rgb);
  }
  writer->finish();
  fits("stream " + kStream + " --input " + file("in.y4m") + " --out " + file("out.y4m") + " --budget 1s");
}

TEST_F(TablesTest, TablesOfResultsFit) {
  write_two();
  fits("compare " + file("a.json") + " " + file("b.json"));
  fits("history " + write_history() + " --all");
  fits("history " + std::string(kSourceDir) + "/bench/results/unets --all -q");
}

TEST_F(TablesTest, ANarrowTerminalSaysWhatItDoesNotShow) {
  write_two();
  const std::string compare = "compare " + file("a.json") + " " + file("b.json");
  const std::string narrow = in_columns(80, compare).out;
  EXPECT_THAT(narrow, AllOf(HasSubstr("not shown in 80 columns: "), HasSubstr("--format csv has all")));
  EXPECT_THAT(in_columns(400, compare).out, Not(HasSubstr("not shown")));
  EXPECT_EQ(run("unset COLUMNS; " + std::string(kHeadroomBinary) + " " + compare).out, in_columns(120, compare).out)
      << "a pipe is as wide as 120 columns";
}

TEST_F(TablesTest, ComparisonsAreFiles) {
  write("a.json", {result_of("baseline", 10), result_of("a, \"b\" & c_d", 5)});
  write("b.json", {result_of("baseline", 10.1), result_of("a, \"b\" & c_d", 5)});
  const std::string compare = "compare " + file("a.json") + " " + file("b.json");
  const Outcome outcome = headroom(compare + " --format csv");
  const std::vector<CsvRow> rows = parse_csv(outcome.out);
  ASSERT_EQ(rows.size(), 3U) << outcome.out;
  EXPECT_THAT(column_of(rows, "benchmark"), Contains("stable-diffusion-xl-base a, \"b\" & c_d"));
  const json exact = json::parse(headroom(compare + " --json").out);
  EXPECT_EQ(exact, json::parse(headroom(compare + " --format json").out));
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(std::stod(column_of(rows, "ratio")[i]), exact["benchmarks"][i]["ratio"].get<double>());
    EXPECT_EQ(std::stod(column_of(rows, "interval_low")[i]), exact["benchmarks"][i]["interval"]["low"].get<double>());
    EXPECT_EQ(std::stod(column_of(rows, "base")[i]), exact["benchmarks"][i]["base_ms"].get<double>());
  }
  EXPECT_THAT(
      headroom(compare + " --format md").out,
      AllOf(HasSubstr("| benchmark | quantity | base | new | new/base | 95% interval |"), HasSubstr("\\& c_d |")));
  const std::string latex = headroom(compare + " --format latex").out;
  EXPECT_THAT(latex,
              AllOf(HasSubstr("\\begin{tabular}{llrrrrrrll}"), HasSubstr("\\& c\\_d"), HasSubstr("\\end{tabular}")));
  EXPECT_EQ(std::ranges::count(latex, '{'), std::ranges::count(latex, '}'));
  EXPECT_EQ(headroom(compare + " --format json --json").code, 2);
  EXPECT_EQ(headroom(compare + " --format xml").code, 2);
}

TEST_F(TablesTest, LaddersAndSweepsAreFiles) {
  const std::vector<CsvRow> ladder =
      csv("ladder " + kPipeline + " --batch 1 --steps 2 --trials 3 --max-rounds 2 --opt arena,fuse --ends");
  EXPECT_EQ(column_of(ladder, "rung"), (CsvRow{"baseline", "arena+fuse"}));
  EXPECT_EQ(column_of(ladder, "applied"), (CsvRow{"", "arena+fuse"}));
  for (const char* const number : {"step_ms", "image_ms", "peak_memory_bytes", "decode_ms", "generations"})
    for (const std::string& value : column_of(ladder, number)) EXPECT_GT(std::stod(value), 0) << number;
  EXPECT_EQ(column_of(ladder, "factor_on_baseline")[0], "1") << "the baseline on itself";

  const std::vector<CsvRow> sweep =
      csv("sweep " + kTinyFlux + " --steps 1,2 --batch 1,2 --trials 3 --opt arena,fuse --out " + file("sweep.json"));
  ASSERT_EQ(sweep.size(), 5U);
  EXPECT_EQ(column_of(sweep, "switches"), CsvRow(4, "arena+fuse"));
  EXPECT_EQ(column_of(sweep, "pixels"), CsvRow(4, "")) << "the model's own";
  for (const std::string& value : column_of(sweep, "image_ms")) EXPECT_GT(std::stod(value), 0);
}

TEST_F(TablesTest, ASweepPrintsOneTable) {
  const std::string sweep = "sweep " + kPipeline + " --steps 1,2 --trials 3 --out " + file("sweep.json") + " -q";
  const std::string text = headroom(sweep).out;
  const std::size_t end = text.find("\n\n");  // of the table: remarks may follow
  EXPECT_EQ(std::ranges::count(text.substr(0, end == std::string::npos ? end : end + 1), '\n'), 4) << text;
  EXPECT_THAT(text, HasSubstr("give no 95% interval, 6 would"));
  EXPECT_THAT(text, Not(HasSubstr("stages of a generation")));
  EXPECT_THAT(column_of(csv(sweep.substr(0, sweep.size() - 3)), "decode_ms"), testing::Each(Not("")));
}

TEST_F(TablesTest, BenchmarksAreFiles) {
  const std::string bench =
      "bench " + kTinyFlux + " --opt arena,fuse --token-rows 4 --token-columns 4 --trials 3 --max-seconds 5";
  const std::vector<CsvRow> rows = csv(bench);
  EXPECT_EQ(column_of(rows, "benchmark"), CsvRow{"tiny-guidance arena+fuse"}) << "as a ladder spells it";
  EXPECT_EQ(column_of(rows, "n"), CsvRow{"3"});
  EXPECT_GT(std::stod(column_of(rows, "p99_ms")[0]), 0);
  EXPECT_THAT(headroom(bench + " --format latex -q").out, HasSubstr("\\begin{tabular}{llrrrrrr}"));
}

TEST_F(TablesTest, AHistoryIsOfSeveralRevisions) {
  const std::string history = "history " + write_history();
  const Outcome several = headroom(history);
  EXPECT_THAT(several.out, AllOf(HasSubstr("hoist+int8, forward"), Not(HasSubstr("base baseline"))));
  EXPECT_THAT(several.err, HasSubstr("1 benchmark of one revision alone"));
  EXPECT_THAT(headroom(history + " --all").out, HasSubstr("base baseline, forward"));
  EXPECT_THAT(headroom(history + " --all --filter 'baseline'").out, Not(HasSubstr("hoist")));
  const Outcome none = headroom(history + " --filter nothing");
  EXPECT_EQ(none.code, 2);
  const std::vector<CsvRow> rows = csv(history);
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(column_of(rows, "revisions"), CsvRow{"10"});
  EXPECT_EQ(column_of(rows, "by_revision"), CsvRow{"rev16"});
  EXPECT_NEAR(std::stod(column_of(rows, "step_ratio")[0]), 1.2, 0.02);
}

TEST_F(TablesTest, AReportHasTables) {
  Result changed = result_of("arena_2", 5);
  changed.configuration.asked = changed.configuration.applied = {"arena"};
  write("a.json", {result_of("baseline", 10), changed});
  const std::string report = "report " + file("a.json") + " --out " + file("out") + " --format ";
  ASSERT_EQ(headroom(report + "csv,md,latex").code, 0);
  const std::vector<CsvRow> rows = parse_csv(read_file(file("out/report_table_measurements.csv")));
  ASSERT_EQ(rows.size(), 3U);
  EXPECT_THAT(column_of(rows, "median_ms"), Contains("10"));
  EXPECT_EQ(column_of(rows, "revision")[0], describe_machine().build->git_revision);
  int tables = 0;
  for (const fs::directory_entry& entry : fs::directory_iterator(file("out"))) {
    const std::string name = entry.path().filename().string();
    tables += name.starts_with("report_table_stable-diffusion-xl-base") ? 1 : 0;
    EXPECT_FALSE(name.ends_with(".png")) << "tables alone were asked for";
  }
  EXPECT_EQ(tables, 3) << "one a scenario and format";
  ASSERT_EQ(headroom(report + "csv").code, 0);
  EXPECT_FALSE(fs::exists(file("out/report_table_measurements.md"))) << "of an earlier report";
  EXPECT_EQ(headroom(report + "text").code, 2);
}

}  // namespace
}  // namespace headroom
