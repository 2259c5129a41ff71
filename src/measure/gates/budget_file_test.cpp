#include "measure/gates/budget_file.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "base/error.hpp"
#include "base/test_paths.hpp"
#include "base/text/json.hpp"

namespace headroom {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::SizeIs;
using testing::UnorderedElementsAre;

/// A pass of m at batch 4 with 200 trials around 10 ms, one in 50 at 15 ms.
Result measured_pass() {
  Trials trials;
  for (int i = 0; i < 200; ++i) trials.wall_ms.push_back(i % 50 == 0 ? 15 : 10 + 0.001 * (i % 7));
  Result result;
  result.id = result.name = "arena,fuse";
  result.subject = {.kind = SubjectKind::kModel,
                    .name = "m",
                    .request = {{"batch", 4}, {"image_tokens", 256}, {"pass", "forward"}},
                    .token_pixels = 2};
  result.configuration.device = "cpu";
  result.configuration.asked = result.configuration.applied = {"arena", "fuse"};
  result.trials = {make_series("forward", trials)};
  result.memory = MemoryReport{};
  result.memory->peak_bytes = 1'000'000;
  result.memory->weights_bytes = 400'000;
  result.quality = {
      {.metric = "psnr_db", .against = "baseline", .value = 35, .interval = {}, .note = {}},
      {.metric = "accuracy", .against = "labels", .value = 0.96, .interval = Interval{0.94, 0.98}, .note = {}}};
  return result;
}

std::vector<GateLine> lines_of(const json& rows, const Result& result) {
  ResultFile file;
  file.results = {result};
  const NamedResults named("r.json", file);
  const std::vector<BudgetRow> budget = budget_from_json({{"schema", "headroom.budget/1"}, {"rows", rows}}, "b.json");
  return check_budget(budget, {&named, 1}).lines;
}

/// The verdict on one limit.
std::string verdict_on(const json& limits, const Result& result = measured_pass()) {
  const std::vector<GateLine> lines = lines_of(json::array({json{{"limits", limits}}}), result);
  return lines.size() == 1 ? lines[0].verdict : "not one line";
}

std::string verdict_of_row(json row) {
  row["limits"] = {{"time", "1s"}};
  return lines_of(json::array({row}), measured_pass()).at(0).verdict;
}

std::string refusal_of_budget(const json& document) {
  try {
    (void)budget_from_json(document, "b.json");
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kError);
    return error.what();
  }
  return "";
}
std::string refusal_of_row(const json& row) {
  return refusal_of_budget({{"schema", "headroom.budget/1"}, {"rows", json::array({row})}});
}

TEST(BudgetFile, HoldsEveryQuantityToItsLimit) {
  EXPECT_EQ(verdict_on({{"time", "11ms"}}), "PASS");
  EXPECT_EQ(verdict_on({{"time", "9ms"}}), "MISSED");
  EXPECT_EQ(verdict_on({{"time", 11}}), "PASS");
  EXPECT_EQ(verdict_on({{"p99", "16ms"}}), "PASS");
  EXPECT_EQ(verdict_on({{"p99", "11ms"}}), "MISSED");
  EXPECT_EQ(verdict_on({{"memory", "1MB"}}), "PASS");
  EXPECT_EQ(verdict_on({{"memory", "900KiB"}}), "MISSED");
  EXPECT_EQ(verdict_on({{"size", "400kB"}}), "PASS");
  EXPECT_EQ(verdict_on({{"psnr", "35dB"}}), "PASS");
  EXPECT_EQ(verdict_on({{"psnr", "36dB"}}), "MISSED");
  EXPECT_EQ(verdict_on({{"accuracy", "90%"}}), "PASS");
  EXPECT_EQ(verdict_on({{"accuracy", "95%"}}), "INCONCLUSIVE") << "its interval begins at 94%";
  EXPECT_EQ(verdict_on({{"accuracy", 0.99}}), "MISSED");
  EXPECT_EQ(verdict_on({{"throughput", "390/s"}}), "PASS") << "4 samples in 10 ms";
  EXPECT_EQ(verdict_on({{"throughput", "410fps"}}), "MISSED");
}

TEST(BudgetFile, IsInconclusiveWhereTheFilesDoNotTell) {
  Result few = measured_pass();
  few.trials = {make_series("forward", Trials{.wall_ms = std::vector<double>(99, 10.0)})};
  EXPECT_EQ(verdict_on({{"p99", "11ms"}}, few), "INCONCLUSIVE");
  EXPECT_EQ(verdict_on({{"p99", "5ms"}}, few), "INCONCLUSIVE") << "never a claim";
  EXPECT_EQ(verdict_on({{"time", "11ms"}}, few), "PASS");
  few.trials = {make_series("forward", Trials{.wall_ms = {10}})};
  EXPECT_EQ(verdict_on({{"time", "11ms"}}, few), "INCONCLUSIVE");
  Result unsettled = measured_pass();
  unsettled.unsettled = "its rounds disagree";
  EXPECT_EQ(verdict_on({{"time", "11ms"}}, unsettled), "INCONCLUSIVE");
  EXPECT_EQ(verdict_on({{"memory", "1MB"}}, unsettled), "PASS");
  Result disturbed = measured_pass();
  disturbed.trials[0].conditions.waited_ms.assign(200, 4);
  for (const char* limit : {"11ms", "9ms"}) EXPECT_EQ(verdict_on({{"time", limit}}, disturbed), "INCONCLUSIVE");
  EXPECT_EQ(verdict_on({{"p99", "16ms"}}, disturbed), "INCONCLUSIVE");
  EXPECT_EQ(verdict_on({{"throughput", "390/s"}}, disturbed), "INCONCLUSIVE");
}

TEST(BudgetFile, WhatNobodyMeasuredIsAFailureUnlessTheRowAllowsIt) {
  EXPECT_EQ(verdict_on({{"frechet", 0.3}}), "NOT MEASURED");
  const auto lines = lines_of(json::array({json{{"model", "other"}, {"limits", {{"time", "1s"}, {"memory", "1GB"}}}}}),
                              measured_pass());
  ASSERT_THAT(lines, SizeIs(2));
  for (const GateLine& line : lines) {
    EXPECT_EQ(line.verdict, "NOT MEASURED");
    EXPECT_EQ(line.outcome, GateOutcome::kFailed);
  }
  const auto allowed = lines_of(
      json::array({json{{"model", "other"}, {"required", false}, {"limits", {{"time", "1s"}}}}}), measured_pass());
  EXPECT_EQ(allowed.at(0).outcome, GateOutcome::kLeftOut);
}

TEST(BudgetFile, AResultWithoutAQuantityIsLeftOutWhereAnotherOfTheRowHasIt) {
  Result baseline = measured_pass();
  baseline.id = baseline.name = "baseline";
  std::erase_if(baseline.quality, [](const QualityRecord& one) { return one.metric == "psnr_db"; });
  const json row = {{"model", baseline.subject.name}, {"limits", {{"psnr", "35dB"}, {"memory", "1MB"}}}};
  const auto verdicts_of = [&](const std::vector<Result>& results) {
    ResultFile file;
    file.results = results;
    const std::vector<NamedResults> files = {{"a.json", file}};
    std::vector<std::string> verdicts;
    for (const GateLine& line :
         check_budget(budget_from_json({{"schema", "headroom.budget/1"}, {"rows", json::array({row})}}, "b.json"),
                      files)
             .lines)
      verdicts.push_back(line.quantity + " " + line.verdict);
    return verdicts;
  };
  EXPECT_THAT(verdicts_of({baseline, measured_pass()}),
              UnorderedElementsAre("peak memory PASS", "peak memory PASS", "PSNR PASS"));
  EXPECT_THAT(verdicts_of({baseline}), UnorderedElementsAre("peak memory PASS", "PSNR NOT MEASURED"));
}

TEST(BudgetFile, LinesOfSeveralFilesNameTheirFile) {
  ResultFile file;
  file.results = {measured_pass()};
  const std::vector<NamedResults> files = {{"a.json", file}, {"b.json", file}};
  const std::vector<BudgetRow> budget = budget_from_json(
      {{"schema", "headroom.budget/1"}, {"rows", json::array({json{{"name", "r"}, {"limits", {{"time", "1s"}}}}})}},
      "budget.json");
  const std::vector<GateLine> lines = check_budget(budget, files).lines;
  ASSERT_THAT(lines, SizeIs(2));
  EXPECT_EQ(lines[0].name, "r: m arena+fuse in a.json");
  EXPECT_EQ(lines[1].name, "r: m arena+fuse in b.json");
  EXPECT_EQ(check_budget(budget, std::span(files).first(1)).lines[0].name, "r: m arena+fuse");
}

TEST(BudgetFile, CsvHasNumbersAndTheirUnit) {
  ResultFile file;
  file.results = {measured_pass()};
  const NamedResults named("r.json", file);
  const std::vector<BudgetRow> budget = budget_from_json(
      {{"schema", "headroom.budget/1"}, {"rows", json::array({json{{"name", "r"}, {"limits", {{"memory", "2MB"}}}}})}},
      "budget.json");
  const std::string csv = gate_table(check_budget(budget, {&named, 1})).to_string(TableFormat::kCsv);
  EXPECT_THAT(csv, HasSubstr("benchmark,quantity,unit,limit,measured,measured_low,measured_high,verdict,why\n"));
  EXPECT_THAT(csv, HasSubstr(",peak memory,bytes,2000000,1000000,,,PASS,"));
}

TEST(BudgetFile, RowsSelectByAllThatTheyName) {
  for (const json& row :
       {json{{"model", "m"}}, json{{"model", "[a-m]"}}, json{{"opt", "arena,fuse"}}, json{{"opt", "arena+fuse"}},
        json{{"opt", "fuse,arena"}}, json{{"opt", ".*fuse"}}, json{{"device", "cpu"}}, json{{"batch", 4}},
        json{{"size", "32x32"}}, json{{"request", {{"pass", "forward"}}}}, json{{"source", ".*"}}})
    EXPECT_EQ(verdict_of_row(row), "PASS") << row;
  for (const json& row : {json{{"model", "mm"}}, json{{"opt", "arena"}}, json{{"device", "cuda"}}, json{{"batch", 1}},
                          json{{"size", "64x64"}}, json{{"gpu", ".*"}}, json{{"source", "pytorch"}},
                          json{{"request", {{"pass", "decode"}}}}, json{{"series", "step"}}})
    EXPECT_EQ(verdict_of_row(row), "NOT MEASURED") << row;
}

TEST(BudgetFile, TokensOfOlderFilesAreAsLargeAsTheModelsOrThoseOfAnotherResult) {
  const json row = {{"size", "32x32"}, {"limits", {{"time", "1s"}}}};
  Result old = measured_pass();
  old.subject.token_pixels.reset();
  EXPECT_EQ(lines_of(json::array({row}), old).at(0).verdict, "NOT MEASURED") << "nobody knows the model m";
  old.subject.name = "fashion-flux";
  EXPECT_EQ(lines_of(json::array({row}), old).at(0).verdict, "PASS");

  Result other = measured_pass();
  other.subject.name = old.subject.name = "m";
  other.subject.request["batch"] = 1;
  ResultFile files[2];
  files[0].results = {old};
  files[1].results = {other};
  const std::vector<NamedResults> named = {{"old.json", files[0]}, {"new.json", files[1]}};
  const std::vector<BudgetRow> budget =
      budget_from_json({{"schema", "headroom.budget/1"}, {"rows", json::array({row})}}, "budget.json");
  EXPECT_THAT(check_budget(budget, named).lines, SizeIs(2));
}

TEST(BudgetFile, NamesWhatIsWrongWithIt) {
  EXPECT_THAT(refusal_of_budget({{"schema", "headroom.budget/2"}, {"rows", json::array()}}),
              HasSubstr("reads 'headroom.budget/1'"));
  EXPECT_THAT(refusal_of_budget({{"schema", "headroom.budget/1"}, {"rows", json::array()}}), HasSubstr("no rows"));
  EXPECT_THAT(refusal_of_budget(json::array()), HasSubstr("no JSON object"));
  EXPECT_THAT(refusal_of_row({{"limits", json::object()}}), HasSubstr("row 1.limits is empty"));
  EXPECT_THAT(refusal_of_row({{"model", "m"}}), HasSubstr("limits"));
  EXPECT_THAT(refusal_of_row({{"limits", {{"speed", 1}}}}), HasSubstr("limits.speed is no quantity"));
  EXPECT_THAT(refusal_of_row({{"limits", {{"time", "40"}}}}), HasSubstr("'40', expected a time such as 40ms"));
  EXPECT_THAT(refusal_of_row({{"limits", {{"time", "25fps"}}}}), HasSubstr("expected a time"));
  EXPECT_THAT(refusal_of_row({{"limits", {{"memory", "2"}}}}), HasSubstr("expected a size"));
  EXPECT_THAT(refusal_of_row({{"limits", {{"accuracy", 95}}}}), HasSubstr("from 0 to 1"));
  EXPECT_THAT(refusal_of_row({{"limits", {{"throughput", 0}}}}), HasSubstr("over zero"));
  EXPECT_THAT(refusal_of_row({{"model", "("}, {"limits", {{"time", 1}}}}),
              HasSubstr("'(' is not a regular expression"));
  EXPECT_THAT(refusal_of_row({{"size", "big"}, {"limits", {{"time", 1}}}}), HasSubstr("expected pixels"));
  EXPECT_THAT(refusal_of_row({{"modle", "m"}, {"limits", {{"time", 1}}}}), HasSubstr("modle"));
}

TEST(BudgetFile, SchemaAndExampleAreWhatIsRead) {
  const std::string docs = std::string(kSourceDir) + "/docs/";
  EXPECT_THAT(read_budget_file(docs + "budget.example.json"), SizeIs(2));
  const json defs = read_json(docs + "budget.schema.json").at("$defs");
  std::set<std::string> described, known = {"throughput"};
  for (const auto& [name, unused] : defs.at("limits").at("properties").items()) described.insert(name);
  for (const QuantityInfo& info : all_quantities()) known.emplace(info.name);
  EXPECT_EQ(described, known);
  json row;  // with every member of the schema
  const json values = {{"name", "n"},      {"size", "1x1"},          {"batch", 1}, {"request", json::object()},
                       {"required", true}, {"limits", {{"time", 1}}}};
  for (const auto& [name, unused] : defs.at("row").at("properties").items())
    row[name] = values.contains(name) ? values.at(name) : json("x");
  EXPECT_EQ(refusal_of_row(row), "");
}

}  // namespace
}  // namespace headroom
