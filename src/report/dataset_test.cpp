#include "report/dataset.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "base/error.hpp"
#include "base/files/file.hpp"
#include "base/test_util.hpp"
#include "report/ladder_view.hpp"
#include "report/test_util.hpp"

namespace headroom {
namespace {

using test::make_dataset;
using test::make_file;
using test::make_result;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;

TEST(TimingOf, AnImageIsThePrologueAndItsStepsSharedByTheBatch) {
  Result result = make_result({"steps=4"}, {10, 11, 12, 12, 13, 14});
  Trials prologue;
  prologue.wall_ms = {8};
  result.trials.push_back(make_series("prologue", prologue));
  const Timing timing = *timing_of(result);
  EXPECT_EQ(timing.unit, "image");
  EXPECT_EQ(timing.median_ms, (8 + 4 * 12) / 2.0);
  EXPECT_THAT(timing.trials_ms, ElementsAre(24, 26, 28, 28, 30, 32));
  const Interval step = *result.trials[0].statistics.median_interval;
  EXPECT_EQ(timing.interval_ms, (Interval{(8 + 4 * step.low) / 2, (8 + 4 * step.high) / 2}));
}

TEST(TimingOf, AnImageIsAsUncertainAsItsPrologue) {
  Result result = make_result({"steps=4"}, {10, 11, 12, 12, 13, 14});
  Trials prologue;
  prologue.wall_ms = {300, 350, 400, 400, 450, 500};
  result.trials.push_back(make_series("prologue", prologue));
  const Timing timing = *timing_of(result);
  const Interval before = *result.trials[1].statistics.median_interval;
  ASSERT_TRUE(timing.interval_ms);
  EXPECT_LE(timing.interval_ms->low, (before.low + 4 * 12) / 2);
  EXPECT_GE(timing.interval_ms->high, (before.high + 4 * 12) / 2);
  const std::optional<Estimate> factor = speedup(result, result, false);
  ASSERT_TRUE(factor && factor->interval);
  EXPECT_GT(factor->interval->high, 1.2) << "and so is a factor of it";
}

TEST(TimingOf, OtherSeriesCountAsTheyAre) {
  const Subject kernel{.kind = SubjectKind::kKernel, .name = "add"};
  EXPECT_EQ(timing_of(make_result({}, {3, 4, 5}, kernel, "launch"))->median_ms, 4);
  EXPECT_EQ(timing_of(make_result({}, {3, 4, 5}, kernel, "forward"))->unit, "forward pass");
  Result untimed = make_result({}, {1});
  untimed.trials.clear();
  EXPECT_FALSE(timing_of(untimed));
}

TEST(Dataset, KeepsWorksMachinesAndThreadsApart) {
  Result four_threads = make_result({}, {1, 2});
  four_threads.configuration.threads = 4;
  ResultFile elsewhere = make_file({make_result({}, {1, 2})});
  elsewhere.machine.cpu = "Other CPU";
  Subject other = test::denoise_subject();
  other.request["steps"] = 11;
  const Dataset dataset = make_dataset({make_file({make_result({}, {1, 2})}), make_file({four_threads}), elsewhere,
                                        make_file({make_result({}, {1, 2}, other)})});
  EXPECT_THAT(dataset.scenarios(), SizeIs(4));
}

TEST(Dataset, TakesTheRunFromTheFasterPrecisionWhereTheyAreEqual) {
  std::vector<Result> bf16 = {make_result({}, {5, 5}), make_result({"fuse"}, {4, 4})};
  for (Result& result : bf16) result.configuration.baseline_dtype = "bf16";
  const std::vector<Result> f32 = {make_result({}, {20, 20}), make_result({"tf32"}, {8, 8})};
  for (const bool bf16_first : {true, false}) {
    const Dataset dataset = make_dataset({make_file(bf16_first ? bf16 : f32, "2026-01-01T00:00:00Z"),
                                          make_file(bf16_first ? f32 : bf16, "2026-01-02T00:00:00Z")});
    EXPECT_EQ(dataset.scenarios().front().run.front()->shown_name(), "baseline (bf16)");
  }
}

TEST(Dataset, KeepsVectorUnitsApart) {
  ResultFile amx = make_file({make_result({}, {1, 2})}), avx512 = amx;
  amx.machine.cpu_isa = "amx";
  avx512.machine.cpu_isa = "avx512_bf16";
  EXPECT_THAT(make_dataset({amx, avx512}).scenarios(), SizeIs(2));
}

TEST(Dataset, APeerThatNamesNoVectorUnitsIsComparedWithTheOnlyMachineItCanBe) {
  ResultFile ours = make_file({make_result({}, {1, 2})});
  ours.machine.cpu_isa = "amx";
  const ResultFile peers = make_file({test::make_peer("compiled", {3, 4})});
  ResultFile elsewhere = make_file({make_result({}, {1, 2})});
  elsewhere.machine.cpu_isa = "avx512";
  elsewhere.machine.logical_cores = 8;
  const Dataset dataset = make_dataset({elsewhere, peers, ours});
  EXPECT_THAT(dataset.scenarios(), SizeIs(2));
  EXPECT_EQ(dataset.scenarios().front().hardware, "Test CPU (amx), 2 of 4 cores, 1.00 GiB, 2 threads");
  EXPECT_THAT(dataset.scenarios().front().current, SizeIs(2));
  elsewhere.machine.logical_cores = ours.machine.logical_cores;
  EXPECT_THAT(make_dataset({elsewhere, peers, ours}).scenarios(), SizeIs(3)) << "either machine could be the peer's";
  const Dataset in_folders(std::vector<std::pair<std::string, ResultFile>>{
      {"a/elsewhere.json", elsewhere}, {"b/peers.json", peers}, {"b/ours.json", ours}});
  EXPECT_THAT(in_folders.scenarios(), SizeIs(2)) << "it is the machine of the results in its folder";
}

TEST(Dataset, AFactorNeedsTimesAndIntervals) {
  std::vector<Result> results = {make_result({}, {10, 10, 10, 10, 10, 10}), make_result({"arena"}, {5, 5, 5, 5, 5, 5}),
                                 make_result({"fuse"}, {4, 4, 4, 4, 4}), make_result({"flash"}, {0, 1})};
  const Dataset dataset = make_dataset({make_file(results)});
  const auto& m = dataset.measurements();
  EXPECT_EQ(dataset.factor(m[0], m[1])->value, 2);
  EXPECT_EQ(dataset.factor(m[0], m[1])->interval, (Interval{2, 2}));
  EXPECT_EQ(dataset.factor(m[0], m[2])->value, 2.5);
  EXPECT_FALSE(dataset.factor(m[0], m[2])->interval);  // five trials
  EXPECT_FALSE(dataset.factor(m[0], m[3]));            // a time of zero
}

TEST(Dataset, AFactorOverItselfIsOne) {
  const Dataset dataset = make_dataset({make_file({make_result({}, {9, 10, 10, 10, 10, 11})})});
  const Estimate factor = *dataset.factor(dataset.measurements()[0], dataset.measurements()[0]);
  EXPECT_EQ(factor.value, 1);
  EXPECT_FALSE(factor.interval);
}

TEST(Dataset, AFactorOfAnUnsettledTimeIsNone) {
  std::vector<Result> results = {make_result({}, {10, 10, 10, 10, 10, 10}), make_result({"arena"}, {5, 5, 5, 5, 5, 5})};
  results[1].trials[0].conditions.waited_ms.assign(6, 4);
  const Dataset dataset = make_dataset({make_file(results)});
  const auto& m = dataset.measurements();
  EXPECT_FALSE(dataset.factor(m[0], m[1]));
  EXPECT_FALSE(dataset.factor(m[1], m[0]));
}

TEST(Dataset, ReadsFilesAndFolders) {
  const TempFolder folder;
  write_results(folder / "b.json", make_file({make_result({}, {1, 2})}));
  std::filesystem::create_directory(folder / "a");
  write_results(folder / "a/c.json", make_file({make_result({"fuse"}, {1, 2})}));
  const std::filesystem::path paths[] = {folder.path()};
  const Dataset dataset = Dataset::read(paths);
  EXPECT_THAT(dataset.measurements(), SizeIs(2));
  EXPECT_EQ(dataset.measurements()[0].label, "fuse");
  const std::filesystem::path missing[] = {folder / "none.json"};
  EXPECT_THAT(error_of([&] { (void)Dataset::read(missing); }), HasSubstr("none.json"));
  std::filesystem::create_directory(folder / "empty");
  const std::filesystem::path empty[] = {folder / "empty"};
  EXPECT_THAT(error_of([&] { (void)Dataset::read(empty); }), HasSubstr("holds no result file"));
  EXPECT_THAT(error_of([] { make_dataset({make_file({})}); }), HasSubstr("no results"));
}

TEST(Dataset, LeavesOutOfAFolderWhatIsNoResultFile) {
  const TempFolder folder;
  write_results(folder / "a.json", make_file({make_result({}, {1, 2})}));
  write_file_atomically(folder / "notes.json", "[]");
  const std::filesystem::path paths[] = {folder.path()};
  const Dataset dataset = Dataset::read(paths);
  EXPECT_THAT(dataset.measurements(), SizeIs(1));
  EXPECT_THAT(dataset.left_out(), ElementsAre(HasSubstr("notes.json")));
  const std::filesystem::path named[] = {folder / "notes.json"};
  EXPECT_THAT(error_of([&] { (void)Dataset::read(named); }), HasSubstr("notes.json"));
}

TEST(Dataset, LeavesOutAFolderWithoutResultsNextToOneWithSome) {
  const TempFolder folder;
  for (const char* name : {"good", "bad"}) std::filesystem::create_directory(folder / name);
  write_results(folder / "good/a.json", make_file({make_result({}, {1, 2})}));
  write_file_atomically(folder / "good/broken.json", "x");
  write_file_atomically(folder / "bad/notes.json", "[]");
  const std::filesystem::path paths[] = {folder / "good", folder / "bad"};
  const Dataset dataset = Dataset::read(paths);
  EXPECT_THAT(dataset.measurements(), SizeIs(1));
  EXPECT_THAT(dataset.left_out(), ElementsAre(HasSubstr("broken.json"), HasSubstr("notes.json"),
                                              AllOf(HasSubstr("bad holds no result file"), HasSubstr("notes.json"))));
}

TEST(LadderOf, PairsRungsWithTheBaselineOfTheirOwnRun) {
  const ResultFile ladder = make_file({make_result({}, {10, 10}), make_result({"arena"}, {5, 5})},
                                      "2026-01-01T00:00:00Z", "aaa"),
                   slow_day = make_file({make_result({}, {40, 40})}, "2026-01-02T00:00:00Z", "bbb"),
                   apart = make_file({make_result({"fuse"}, {1, 1})}, "2026-01-03T00:00:00Z", "bbb"),
                   peer = make_file({test::make_peer("compiled", {20, 20})}, "2026-01-03T00:00:00Z");
  const Dataset dataset = make_dataset({ladder, slow_day, apart, peer});
  const LadderView view = *ladder_of(dataset, dataset.scenarios().front());
  ASSERT_THAT(view.singles, SizeIs(1)) << "fuse has no baseline to compare with";
  EXPECT_EQ(view.singles[0].on_baseline->value, 2) << "not 8, against the slow day";
  EXPECT_THAT(view.peers, SizeIs(1)) << "which is always of another file";
  EXPECT_THAT(dataset.scenarios().front().current, SizeIs(4));
  const Dataset none = make_dataset({slow_day, apart});
  EXPECT_FALSE(ladder_of(none, none.scenarios().front()));
}

TEST(LadderOf, IsOfTheLatestOfTheLargestRuns) {
  const auto run = [](double ms, const std::string& created) {
    return make_file({make_result({}, {10, 10}), make_result({"arena"}, {ms, ms})}, created);
  };
  const Dataset dataset = make_dataset({run(5, "2026-01-02T00:00:00Z"), run(2, "2026-01-01T00:00:00Z")});
  EXPECT_EQ(ladder_of(dataset, dataset.scenarios().front())->singles[0].on_baseline->value, 2);
}

TEST(LadderOf, TellsSinglesFromWhatAddsUp) {
  std::vector<Result> results = test::ladder_results();
  results.push_back(make_result({"fuse", "steps=5"}, {40, 40}));
  const Dataset dataset = make_dataset({make_file(results)});
  const LadderView ladder = *ladder_of(dataset, dataset.scenarios().front());
  const auto labels = [](const std::vector<RungView>& rungs) {
    std::vector<std::string> list;
    for (const RungView& rung : rungs) list.push_back(rung.label);
    return list;
  };
  EXPECT_THAT(labels(ladder.singles), ElementsAre("arena", "fuse", "steps=5"));
  EXPECT_THAT(labels(ladder.cumulative), ElementsAre("+ arena", "+ fuse", "+ steps=5"));
  EXPECT_THAT(labels(ladder.others), ElementsAre("fuse+steps=5"));
  EXPECT_EQ(ladder.combined()->on_baseline->value, 4);
  EXPECT_EQ(ladder.synergy()->product.value, 1.25 * 0.8 * 2);
  EXPECT_THAT(ladder.all(), SizeIs(7));
}

TEST(Dataset, TellsModelsOfOneNameApart) {
  Subject large = test::denoise_subject(), small = large, unknown = large;
  large.parameters = 80560;
  small.parameters = 49808;
  ResultFile file = test::make_file(
      {test::make_result({}, {10}, large), test::make_result({}, {5}, small), test::make_peer("eager", {7}, unknown)});
  for (std::size_t i = 0; i < file.results.size(); ++i) file.results[i].id = std::to_string(i);
  const Dataset dataset = test::make_dataset({file});
  std::map<std::string, std::size_t> results;
  for (const Scenario& scenario : dataset.scenarios()) {
    EXPECT_THAT(scenario.work, testing::EndsWith(", " + scenario.model));
    results[scenario.model] = scenario.all.size();
  }
  EXPECT_EQ(results, (std::map<std::string, std::size_t>{{"49808 parameters", 2}, {"80560 parameters", 1}}));
  file.results.erase(file.results.begin() + 1);
  const Dataset one = test::make_dataset({file});
  ASSERT_EQ(one.scenarios().size(), 1U) << "a peer that does not count them does the same work";
  EXPECT_EQ(one.scenarios()[0].model, "");
}

}  // namespace
}  // namespace headroom
