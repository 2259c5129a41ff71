#include "measure/statistics/process_pairs.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "base/error.hpp"

namespace headroom {
namespace {

using ::testing::HasSubstr;

ResultFile file_of(const std::string& id, const std::vector<double>& times) {
  ResultFile file;
  file.results.push_back(
      {.id = id,
       .name = id,
       .subject = {.kind = SubjectKind::kModel, .name = "m", .request = {{"batch", 1}}},
       .source = {},
       .configuration =
           {.device = "cpu", .asked = {}, .applied = {}, .declined = {}, .threads = {}, .baseline_dtype = {}},
       .trials = {make_series("forward", Trials{.wall_ms = times, .warmup = 5})},
       .memory = {},
       .quality = {},
       .tags = {},
       .plan = {}});
  return file;
}

TEST(MergeProcesses, NumbersTheProcesses) {
  const ResultFile merged = merge_processes(std::vector{file_of("a", {1, 2}), file_of("a", {3}), file_of("a", {4, 5})});
  const TrialSeries& series = merged.results.at(0).trials.at(0);
  EXPECT_EQ(series.time_ms, (std::vector<double>{1, 2, 3, 4, 5}));
  EXPECT_EQ(series.process, (std::vector<std::int64_t>{0, 0, 1, 2, 2}));
  EXPECT_EQ(series.statistics.n, 5);
  EXPECT_EQ(series.warmup, 5);
}

TEST(MergeProcesses, RefusesOtherBenchmarks) {
  EXPECT_THROW((void)merge_processes(std::vector{file_of("a", {1}), file_of("b", {1})}), Error);
}

TEST(JoinBenchmarks, KeepsIdsApart) {
  const std::vector<ResultFile> files = {file_of("a", {1}), file_of("a", {2})};
  const ResultFile joined = join_benchmarks(files, std::vector<std::string>{"batch 1", "batch 20"});
  ASSERT_EQ(joined.results.size(), 2U);
  EXPECT_EQ(joined.results[0].id, "m batch 1, a");
  EXPECT_EQ(joined.results[1].id, "m batch 20, a");
  EXPECT_EQ(joined.results[1].name, "batch 20, a");
  EXPECT_NO_THROW((void)to_json(joined));
}

TEST(PairOrder, IsRandomAbba) {
  int abba = 0;
  for (int block = 0; block < 200; ++block) {
    EXPECT_NE(base_goes_first(2 * block, 7), base_goes_first(2 * block + 1, 7));
    abba += base_goes_first(2 * block, 7) ? 1 : 0;
  }
  EXPECT_GT(abba, 60);
  EXPECT_LT(abba, 140);
}

/// Two builds; every run is recorded, and its time follows the machine's drift.
struct Builds {
  std::string order;
  double drift_ms = 0;  ///< added by each run to all later ones
  double now_ms = 10;
  BenchRun run(char name, double factor) {
    return [this, name, factor] {
      order += name;
      now_ms += drift_ms;
      return file_of("a", std::vector<double>(20, factor * now_ms));
    };
  }
};

TEST(RunPairs, Interleaves) {
  Builds builds;
  const PairedRuns runs = run_pairs(builds.run('A', 1), builds.run('B', 1), {.pairs = 8, .compared = {}});
  ASSERT_EQ(builds.order.size(), 16U);
  for (std::size_t i = 0; i < 16; i += 4) {
    const std::string block = builds.order.substr(i, 4);
    EXPECT_TRUE(block == "ABBA" || block == "BAAB") << builds.order;
  }
  EXPECT_EQ(runs.base.results[0].trials[0].process.back(), 7);
  EXPECT_EQ(runs.comparison.benchmarks.at(0).judged.verdict, Verdict::kOk);
}

TEST(RunPairs, CancelsASteadyDrift) {
  Builds builds;
  builds.drift_ms = 0.5;  // the machine is 2.6 times slower in the end
  const PairedRuns runs = run_pairs(builds.run('A', 1), builds.run('B', 1), {.pairs = 16, .compared = {}});
  EXPECT_NEAR(runs.comparison.benchmarks.at(0).effect.ratio, 1, 0.01);
  EXPECT_EQ(exit_code_of(runs.comparison), ExitCode::kOk);
}

TEST(RunPairs, AddsPairsWhereTheVerdictIsNotSettled) {
  Builds builds;
  std::mt19937_64 engine(1);
  std::normal_distribution<double> normal;
  const auto noisy = [&](char name) {
    return [&, name] {
      builds.order += name;
      return file_of("a", std::vector<double>(20, 10 * std::exp(0.2 * normal(engine))));
    };
  };
  int last_done = 0, last_total = 0;
  (void)run_pairs(noisy('A'), noisy('B'), {.pairs = 6, .max_pairs = 15, .compared = {}}, [&](int done, int total) {
    EXPECT_EQ(done, last_done + 1);
    last_done = done;
    last_total = total;
  });
  EXPECT_EQ(builds.order.size(), 30U);  // 6, then 12, then 15 pairs
  EXPECT_EQ(last_done, 30);
  EXPECT_EQ(last_total, 30);
}

TEST(RunPairs, RefusesTooFew) {
  Builds builds;
  EXPECT_THROW((void)run_pairs(builds.run('A', 1), builds.run('B', 1), {.pairs = 5, .compared = {}}), Error);
  EXPECT_EQ(builds.order, "");
}

TEST(BenchProcess, SaysWhatWentWrong) {
  const auto message = [](const std::vector<std::string>& command) -> std::string {
    try {
      (void)run_bench_process(command);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(message({"/nonexistent/headroom", "bench"}), HasSubstr("/nonexistent/headroom"));
  EXPECT_THAT(message({"sh", "-c", "echo broken >&2; exit 2"}), HasSubstr("ended with code 2: broken"));
  EXPECT_THAT(message({"sh", "-c", "kill -9 $$"}), HasSubstr("killed by signal 9"));
  EXPECT_THAT(message({"echo", "hello"}), HasSubstr("what echo printed"));
  EXPECT_THAT(message({"echo", R"({"schema": "headroom.result/9"})"}), HasSubstr("headroom.result/9"));
}

}  // namespace
}  // namespace headroom
