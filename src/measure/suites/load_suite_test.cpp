#include "measure/suites/load_suite.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

namespace headroom {
namespace {

std::size_t files_left() {
  std::size_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(std::filesystem::temp_directory_path()))
    if (entry.path().filename().string().starts_with("headroom-load-")) ++count;
  return count;
}

TEST(LoadSuite, LoadsEveryByteOfAFileAndOfMemoryAndLeavesNothingBehind) {
  const std::unique_ptr<Backend> backend = make_backend(DeviceKind::kCpu, 1);
  constexpr std::uint64_t kBytes = 7000 * 6144;  // whole rows of 3072 elements
  const std::size_t before = files_left();
  const ResultFile file = bench_load(*backend, {.bytes = kBytes + 5000, .trials = 2});
  EXPECT_EQ(files_left(), before);
  ASSERT_EQ(file.results.size(), 2U) << "a CPU has no link";
  EXPECT_EQ(file.results[0].name, "memory");
  EXPECT_EQ(file.results[1].name, "mapped file");
  for (const Result& result : file.results) {
    EXPECT_EQ(series_of(result, "load").time_ms.size(), 2U);
    EXPECT_EQ(series_of(result, "load").conditions.preemptions.size(), 2U);
    EXPECT_TRUE(series_of(result, "load").warmup_stable);
  }
  EXPECT_EQ(file.results[1].subject.request.at("bytes").get<std::uint64_t>(), kBytes);
  EXPECT_THAT(to_load_table(file).text(),
              testing::AllOf(testing::HasSubstr("mapped file"), testing::HasSubstr("41.0 MiB")));
  EXPECT_EQ(backend->memory_use().total, 0U);
}

TEST(LoadSuite, SaysThatOtherWorkRan) {
  ResultFile file;
  Result& result = file.results.emplace_back();
  result.name = "memory";
  result.subject = {.kind = SubjectKind::kKernel, .name = "load", .request = {{"bytes", 1000}}};
  Trials trials{.wall_ms = std::vector<double>(LoadBenchOptions{}.trials, 100.0), .conditions = {}};
  result.trials = {make_series("load", trials)};
  const auto text = [&] { return to_load_table(file).text(); };
  EXPECT_THAT(text(), testing::Not(testing::AnyOf(testing::HasSubstr("unsettled"), testing::HasSubstr("interval, "))))
      << "so many trials have an interval";
  trials.conditions.waited_ms.assign(trials.wall_ms.size(), 40);
  result.trials = {make_series("load", trials)};
  EXPECT_THAT(text(), testing::HasSubstr("1 of 1 times are unsettled, and nothing should be concluded from them "
                                         "(memory: other work held the CPUs: threads waited for one for 40% of a "
                                         "typical load's time)"));
}

}  // namespace
}  // namespace headroom
