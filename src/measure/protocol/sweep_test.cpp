#include "measure/protocol/sweep.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "base/test_util.hpp"
#include "measure/results/timing.hpp"

namespace headroom {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

std::vector<ImageSize> squares(const std::vector<std::int64_t>& sides) {
  std::vector<ImageSize> sizes;
  for (const std::int64_t side : sides) sizes.push_back({.height = side, .width = side});
  return sizes;
}

class Sweep : public testing::Test {
 protected:
  [[nodiscard]] fs::path path() const { return folder_ / "sweep.json"; }

  /// A cell takes as many ms as its height in pixels; above 1000 pixels it does not fit.
  ResultFile measure(const SweepCell& cell) {
    ++measured_;
    ResultFile file;
    file.created = "2026-01-01T00:00:00Z";
    file.machine = machine();
    Result result{
        .id = "a",
        .name = cell.switches,
        .subject = work(cell),
        .source = {.name = "headroom", .version = "1"},
        .configuration =
            {.device = "cpu", .asked = {}, .applied = {}, .declined = {}, .threads = threads_, .baseline_dtype = {}},
        .trials = {},
        .memory = {},
        .quality = {},
        .tags = {},
        .plan = {}};
    const auto ms = static_cast<double>(cell.size.height);
    if (cell.switches != "baseline") result.configuration.asked = result.configuration.applied = {cell.switches};
    if (cell.size.height > 1000)
      result.tags.emplace_back(kOutOfMemoryTag);
    else
      result.trials = {steps(ms), make_series("image", Trials{.wall_ms = {ms}})};
    file.results.push_back(std::move(result));
    return file;
  }
  [[nodiscard]] TrialSeries steps(double ms) const {
    std::vector<Trials> processes;
    for (std::int64_t process = 0; process < processes_; ++process)
      processes.push_back({.wall_ms = std::vector<double>(static_cast<std::size_t>(trials_), ms), .process = process});
    return make_series("step", processes);
  }
  static std::vector<std::string> switches(const SweepCell& cell) {
    if (cell.switches == "baseline") return {};
    return {cell.switches, "graph"};
  }
  static Subject work(const SweepCell& cell) {
    return {.kind = SubjectKind::kModel,
            .name = "m",
            .request = {{"images", cell.batch},
                        {"steps", cell.steps},
                        {"token_rows", cell.size.height / 16},
                        {"token_columns", cell.size.width / 16}}};
  }
  [[nodiscard]] Machine machine() const {
    Machine machine;
    machine.cpu = cpu_;
    machine.logical_cores = machine.allowed_cores = 2;
    machine.os = "an OS";
    machine.kernel = "a kernel";
    return machine;
  }
  [[nodiscard]] SweepTask task(bool force = false) const {
    return {.model = "m",
            .cells = cells_,
            .setting = setting_,
            .trials = trials_,
            .processes = processes_,
            .machine = machine(),
            .force = force};
  }
  SweepCalls calls() {
    return {.run = [this](const SweepCell& cell) { return measure(cell); },
            .work =
                [](const SweepCell& cell) {
                  return CellWork{work(cell), switches(cell)};
                },
            .on_again = [this](const std::string& id, const std::string& why) { again_.push_back(id + ": " + why); }};
  }
  ResultFile sweep_all(bool force = false) { return sweep(path(), task(force), calls()); }

  std::vector<SweepCell> cells_ = list_cells(
      {.switches = {"baseline", "fast"}, .sizes = squares({512, 2048, 256}), .steps = {4, 28}, .batches = {1, 2}});
  std::string cpu_ = "Xeon";
  std::string setting_;
  std::int64_t threads_ = 2;
  std::int64_t trials_ = 2;
  std::int64_t processes_ = 1;
  int measured_ = 0;
  std::vector<std::string> again_;

 private:
  TempFolder folder_;
};

TEST_F(Sweep, ListsEveryCombinationOnceSmallFirst) {
  EXPECT_EQ(cells_.size(), 24U);
  EXPECT_EQ(cells_.front(), (SweepCell{.switches = "baseline", .size = {256, 256}, .steps = 4, .batch = 1}));
  EXPECT_EQ(cells_.back(), (SweepCell{.switches = "fast", .size = {2048, 2048}, .steps = 28, .batch = 2}));
  EXPECT_EQ(list_cells({.switches = {"a", "a"}, .sizes = squares({1}), .steps = {1, 1}, .batches = {1}}).size(), 1U);
}

TEST_F(Sweep, KeepsSizesThatAreNotSquareApart) {
  cells_ = list_cells({.switches = {"baseline"},
                       .sizes = {{.height = 768, .width = 512}, {.height = 512, .width = 768}, {512, 512}},
                       .steps = {4},
                       .batches = {1}});
  ASSERT_EQ(cells_.size(), 3U);
  EXPECT_EQ(cells_[0].size, (ImageSize{512, 512})) << "small first, by the pixels";
  const ResultFile file = sweep_all();
  std::set<std::string> ids;
  for (const Result& result : file.results) ids.insert(result.id);
  EXPECT_EQ(ids,
            (std::set<std::string>{"m baseline, 512x512, 4 steps, batch 1", "m baseline, 512x768, 4 steps, batch 1",
                                   "m baseline, 768x512, 4 steps, batch 1"}));
  EXPECT_THAT(to_sweep_table(file, task()).text(), testing::AllOf(HasSubstr("512x768"), HasSubstr("768x512")));
  measured_ = 0;
  sweep_all();
  EXPECT_EQ(measured_, 0) << "all are found again";
}

TEST_F(Sweep, GoesOnAfterACellThatDoesNotFit) {
  const ResultFile file = sweep_all();
  EXPECT_EQ(file, read_results(path()));
  ASSERT_EQ(file.results.size(), 24U);
  int without_memory = 0;
  for (const Result& result : file.results) without_memory += result.trials.empty() ? 1 : 0;
  EXPECT_EQ(without_memory, 8);
  const std::string table = to_sweep_table(file, task()).text();
  EXPECT_THAT(table, HasSubstr("out of memory"));
  EXPECT_THAT(table, HasSubstr("512 ms"));
}

/// A cell of the baseline, and one of `fast`, which takes half the time.
std::vector<SweepCell> two_cells() {
  return list_cells({.switches = {"baseline", "fast"}, .sizes = squares({512}), .steps = {4}, .batches = {1}});
}

TEST_F(Sweep, TableHasTheFactorOnTheBaselineOfTheSameWork) {
  trials_ = 6;
  cells_ = two_cells();
  ResultFile file = sweep_all();
  file.results.at(1).trials.at(0) = steps(256);
  const std::string csv = to_sweep_table(file, task()).to_string(TableFormat::kCsv);
  EXPECT_THAT(csv, HasSubstr("baseline,512x512,4,1,512,512,512,2048,2048,2048,1,,,"));
  EXPECT_THAT(csv, HasSubstr("fast,512x512,4,1,256,256,256,1024,1024,1024,2,,,"));
  EXPECT_THAT(to_sweep_table(file, task()).text(),
              HasSubstr("factors have no interval: one process says nothing of how processes differ (--processes)"));
  const std::optional<Estimate> factor = speedup(file.results[0], file.results[1], true);
  EXPECT_EQ(factor->value, 2) << "as in a report";
  EXPECT_FALSE(factor->interval) << "as in a report";
}

TEST_F(Sweep, FactorOfSeveralProcessesHasAnInterval) {
  trials_ = 6;
  processes_ = 2;
  cells_ = two_cells();
  ResultFile file = sweep_all();
  file.results.at(1).trials.at(0) = steps(256);
  const Printout table = to_sweep_table(file, task());
  EXPECT_THAT(table.to_string(TableFormat::kCsv), HasSubstr("fast,512x512,4,1,256,256,256,1024,1024,1024,2,2,2,"));
  EXPECT_THAT(table.text(), testing::Not(HasSubstr("--processes")));
}

TEST_F(Sweep, MarksACellWhoseSwitchesDeclined) {
  trials_ = 6;
  cells_ = two_cells();
  ResultFile file = sweep_all();
  Configuration& configuration = file.results.at(1).configuration;
  configuration.applied.clear();
  configuration.declined = {{.name = "fast", .reason = "there is no loop"}};
  EXPECT_THAT(to_sweep_table(file, task()).text(),
              testing::AllOf(testing::ContainsRegex("\nfast \\(declined\\)  .*  declined "),
                             HasSubstr("\ndeclined, so that the cell was measured without it:\n"
                                       "  m fast, 512x512, 4 steps, batch 1: fast: there is no loop\n")));
  EXPECT_THAT(to_sweep_table(file, task()).to_string(TableFormat::kCsv), HasSubstr(",declined: fast"));
  configuration.asked = {"fast", "graph"};
  configuration.applied = {"graph"};
  EXPECT_THAT(to_sweep_table(file, task()).text(), testing::ContainsRegex("\nfast \\(fast declined\\)  .* 1.00x"));
}

TEST_F(Sweep, MarksACellThatOtherWorkDisturbed) {
  trials_ = 6;
  cells_ = two_cells();
  ResultFile file = sweep_all();
  file.results.at(1).trials.at(0).conditions.waited_ms.assign(6, 256);
  const std::string text = to_sweep_table(file, task()).text();
  EXPECT_THAT(text, testing::ContainsRegex("\nfast \\?  .*  unsettled "));
  EXPECT_THAT(text,
              HasSubstr("\nunsettled: too noisy to report:\n  m fast, 512x512, 4 steps, batch 1: other work held"));
}

TEST_F(Sweep, NamesSwitchesAlikeInTheTableAndBelowIt) {
  trials_ = 6;
  cells_ = two_cells();
  cells_.at(1).switches = "fast,graph";
  ResultFile file = sweep_all();
  file.results.at(1).trials.at(0).conditions.waited_ms.assign(6, 256);
  const std::string text = to_sweep_table(file, task()).text();
  EXPECT_THAT(text, testing::AllOf(HasSubstr("fast+graph ?"), HasSubstr("  m fast+graph, 512x512, 4 steps, batch 1")));
}

TEST_F(Sweep, SaysHowManyTrialsAnIntervalTakes) {
  cells_ = two_cells();
  EXPECT_THAT(to_sweep_table(sweep_all(), task()).text(),
              HasSubstr("2 trials give no 95% interval, 6 would (--trials)"));
  trials_ = 6;
  EXPECT_THAT(to_sweep_table(sweep_all(), task()).text(), testing::Not(HasSubstr("--trials")));
}

TEST_F(Sweep, MeasuresOnlyWhatIsMissing) {
  const std::vector<SweepCell> all = cells_;
  cells_.resize(5);
  (void)sweep_all();
  EXPECT_EQ(measured_, 5);
  cells_ = all;
  const ResultFile file = sweep_all();
  EXPECT_EQ(measured_, 24);
  std::set<std::string> ids;
  for (const Result& result : file.results) ids.insert(result.id);
  EXPECT_EQ(ids.size(), 24U);
  (void)sweep_all();
  EXPECT_EQ(measured_, 24);
}

TEST_F(Sweep, KeepsWhatIsDoneWhereACellFails) {
  int left = 3;
  const auto failing = [&](const SweepCell& cell) {
    if (left-- == 0) fail("the device is lost");
    return measure(cell);
  };
  SweepCalls with_fault = calls();
  with_fault.run = failing;
  EXPECT_THROW((void)sweep(path(), task(), with_fault), Error);
  EXPECT_EQ(read_results(path()).results.size(), 3U);
}

TEST_F(Sweep, RefusesToMixMachines) {
  const std::vector<SweepCell> all = cells_;
  cells_.resize(5);
  (void)sweep_all();
  cells_ = all;
  cpu_ = "EPYC";
  try {
    (void)sweep_all();
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("CPU: EPYC against Xeon"));
  }
  EXPECT_EQ(read_results(path()).results.size(), 5U);
  const ResultFile mixed = sweep_all(true);
  EXPECT_EQ(mixed.results.size(), 24U);
  EXPECT_EQ(std::ranges::count_if(mixed.results,
                                  [](const Result& result) {
                                    return std::ranges::find(result.tags, kOtherMachineTag) != result.tags.end();
                                  }),
            19);
}

TEST_F(Sweep, RefusesAnotherMachineAlsoWhereNothingIsLeftToMeasure) {
  (void)sweep_all();
  cpu_ = "EPYC";
  EXPECT_THAT(error_of([&] { (void)sweep_all(); }), HasSubstr("CPU: EPYC against Xeon"));
  EXPECT_EQ(measured_, 24);
}

TEST_F(Sweep, MeasuresCellsAgainThatHaveFewerTrialsOrProcesses) {
  cells_.resize(2);
  (void)sweep_all();
  trials_ = 10;
  EXPECT_EQ(sweep_all().results[0].trials[0].time_ms.size(), 10U);
  EXPECT_EQ(measured_, 4);
  EXPECT_THAT(again_, testing::ElementsAre("m baseline, 256x256, 4 steps, batch 1: it has 2 of 10 steps",
                                           "m fast, 256x256, 4 steps, batch 1: it has 2 of 10 steps"));
  processes_ = 3;
  EXPECT_EQ(sweep_all().results.size(), 2U);
  EXPECT_EQ(measured_, 6);
  EXPECT_THAT(again_.back(), HasSubstr("it was measured in 1 of 3 processes"));
  trials_ = 5;
  processes_ = 1;
  EXPECT_EQ(sweep_all().results[1].trials[0].time_ms.size(), 30U) << "more than was asked for is kept";
  EXPECT_EQ(measured_, 6);
}

TEST_F(Sweep, KeepsApartCellsThatAreRunInOtherWays) {
  cells_.resize(1);
  (void)sweep_all();
  setting_ = "4 threads";
  EXPECT_EQ(cell_id(task(), cells_[0]), "m baseline, 256x256, 4 steps, batch 1, 4 threads");
  threads_ = 4;
  EXPECT_EQ(sweep_all().results.size(), 2U);
  EXPECT_EQ(measured_, 2);
}

TEST_F(Sweep, RefusesACellOfOtherWork) {
  cells_.resize(1);
  ResultFile file = sweep_all();
  file.results[0].subject.request["steps"] = 1;
  write_results(path(), file);
  EXPECT_THAT(error_of([&] { (void)sweep_all(); }),
              testing::AllOf(HasSubstr("'m baseline, 256x256, 4 steps, batch 1'"), HasSubstr("is of other work")));
  file.results[0].subject = work(cells_[0]);
  file.results[0].configuration.asked = file.results[0].configuration.applied = {"fast"};
  write_results(path(), file);
  EXPECT_THAT(error_of([&] { (void)sweep_all(); }), HasSubstr("is of other switches"));
}

TEST_F(Sweep, MeasuresACellAgainThatHasNoTimesAndDoesNotSayWhy) {
  cells_.resize(1);
  ResultFile file = sweep_all();
  file.results[0].trials.clear();
  write_results(path(), file);
  EXPECT_EQ(sweep_all().results[0].trials.size(), 2U);
}

TEST_F(Sweep, TwoIntoOneFileLoseNothing) {
  std::string second;
  SweepCalls nested = calls();
  nested.run = [&](const SweepCell& cell) {
    if (second.empty()) second = error_of([&] { (void)sweep_all(); });
    return measure(cell);
  };
  EXPECT_EQ(sweep(path(), task(), nested).results.size(), 24U);
  EXPECT_THAT(second, HasSubstr("another process is writing to"));
  EXPECT_EQ(measured_, 24) << "the second measured nothing";
}

TEST_F(Sweep, TellsHowMuchWorkIsDone) {
  std::vector<double> shares;
  SweepCalls observed = calls();
  observed.on_progress = [&](const SweepProgress& progress) {
    EXPECT_EQ(progress.cells, 24U);
    shares.push_back(progress.work_done);
  };
  (void)sweep(path(), task(), observed);
  ASSERT_EQ(shares.size(), 25U);
  EXPECT_EQ(shares.front(), 0);
  EXPECT_EQ(shares.back(), 1);
  EXPECT_LT(shares[12], 0.2);  // the large half is most of the work
  EXPECT_TRUE(std::ranges::is_sorted(shares));
}

}  // namespace
}  // namespace headroom
