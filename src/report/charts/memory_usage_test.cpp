#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "report/charts/charts.hpp"
#include "report/charts/option_test_util.hpp"
#include "report/test_util.hpp"

namespace headroom {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::SizeIs;

constexpr std::int64_t kMiB = 1 << 20;

TEST(MemoryAgainstBaseline, IsInBytesAndPercentWithWhatIsFree) {
  std::vector<Result> results = {test::make_result({}, {1, 1}), test::make_result({"hoist"}, {1, 1}),
                                 test::make_result({"bf16"}, {1, 1})};
  test::set_memory(results[0], kMiB, 8 * kMiB, 10 * kMiB);
  test::set_memory(results[1], kMiB, 10 * kMiB, 10 * kMiB);
  test::set_memory(results[2], kMiB, 6 * kMiB, 6 * kMiB);
  for (Result& result : results) result.memory->untracked_bytes = 14 * kMiB;
  const Drawn drawn = charts::memory_usage(test::make_dataset({test::make_file(results)}));
  ASSERT_THAT(drawn.charts, SizeIs(1));
  const json& held = drawn.charts.front().option["series"][1];
  EXPECT_THAT(test::items_of(held, "text"),
              ElementsAre("8.00 MiB used, 10.0 MiB allocated\n1000 MiB free",
                          "10.0 MiB used, 10.0 MiB allocated\n+2.00 MiB (+25%) on baseline, 1000 MiB free",
                          "6.00 MiB used, 6.00 MiB allocated\n-2.00 MiB (-25%) on baseline, 1004 MiB free"));
  EXPECT_EQ(test::tip_text(held["data"][1], "against the baseline"), "+2.00 MiB (+25%)");
  EXPECT_EQ(test::tip_text(held["data"][0], "free on the device"), "1048576000 bytes");
}

TEST(MemoryAgainstBaseline, IsNotSaidOfAnotherPrecisionOrProgram) {
  std::vector<Result> results = {test::make_result({}, {1, 1}), test::make_result({"fuse"}, {1, 1}),
                                 test::make_peer("eager", {1, 1})};
  for (Result& result : results) test::set_memory(result, kMiB, 8 * kMiB, 8 * kMiB);
  results[1].configuration.baseline_dtype = "bf16";
  const Drawn drawn = charts::memory_usage(test::make_dataset({test::make_file(results)}));
  for (const json& item : drawn.charts.front().option["series"][1]["data"])
    EXPECT_EQ(test::tip_text(item, "against the baseline"), "(no such row)");
}

TEST(MemoryUsage, SaysWhatIsFreeOnlyWhereOthersAreKnown) {
  std::vector<Result> results = {test::make_result({}, {1, 1}), test::make_peer("eager", {1, 1})};
  for (Result& result : results) test::set_memory(result, kMiB, 8 * kMiB, 8 * kMiB);
  results[1].memory->untracked_bytes.reset();
  const Drawn drawn = charts::memory_usage(test::make_dataset({test::make_file(results)}));
  EXPECT_THAT(test::items_of(drawn.charts.front().option["series"][1], "text"),
              ElementsAre("8.00 MiB used, 8.00 MiB allocated\n1016 MiB free", "8.00 MiB used, 8.00 MiB allocated"));
}

TEST(MemoryAgainstPeers, SaysWhoNeedsLess) {
  std::vector<Result> results = {test::make_result({}, {1, 1}), test::make_result({"bf16"}, {1, 1}),
                                 test::make_peer("eager", {1, 1})};
  const std::int64_t peaks[] = {12, 6, 4};
  for (std::size_t i = 0; i < results.size(); ++i) test::set_memory(results[i], kMiB, peaks[i] * kMiB, peaks[i] * kMiB);
  EXPECT_THAT(
      charts::memory_usage(test::make_dataset({test::make_file(results)})).charts.front().notes,
      testing::Contains("Headroom's least is 6.00 MiB (bf16), other programs' 4.00 MiB (pytorch eager): 50% more."));
  results.pop_back();
  EXPECT_THAT(charts::memory_usage(test::make_dataset({test::make_file(results)})).charts.front().notes, SizeIs(1));
}

TEST(SizeAlone, ShowsEachSwitchWithItsAccuracy) {
  std::vector<Result> results = {test::make_result({}, {1, 1}), test::make_result({"bf16"}, {1, 1}),
                                 test::make_result({"fuse"}, {1, 1}), test::make_result({"bf16", "fuse"}, {1, 1})};
  const std::int64_t weights[] = {4 * kMiB, 2 * kMiB, 4 * kMiB, 2 * kMiB};
  for (std::size_t i = 0; i < results.size(); ++i) test::set_memory(results[i], weights[i], 8 * kMiB, 8 * kMiB);
  test::set_quality(results[1], "accuracy", 0.978, Interval{0.961, 0.988});
  const Drawn drawn = charts::size_reduction(test::make_dataset({test::make_file(results)}));
  ASSERT_THAT(drawn.charts, SizeIs(2));
  const Chart& alone = drawn.charts[1];
  EXPECT_EQ(alone.file, "size_reduction-2");
  EXPECT_EQ(alone.title, "Size of the weights with each switch alone");
  EXPECT_THAT(alone.option["yAxis"]["data"], ElementsAre("baseline", "bf16", "fuse"));
  EXPECT_THAT(test::items_of(alone.option["series"][0], "text"),
              ElementsAre("4.00 MiB", "2.00 MiB, 2.00x smaller (-50%)  accuracy 97.8% [96.1, 98.8]", "4.00 MiB"));
}

}  // namespace
}  // namespace headroom
