#include "measure/suites/attention_suite.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/error.hpp"

namespace headroom {
namespace {

TEST(AttentionSuite, MeasuresEachLengthOnOneRankAndOnSeveral) {
  const std::unique_ptr<Backend> backend = make_backend(DeviceKind::kCpu, 2);
  std::vector<std::int64_t> done;
  const ResultFile file = bench_attention(
      *backend, {.tokens = {33, 64}, .heads = 2, .head_dim = 16, .causal = true, .ranks = 2, .trials = 3},
      [&](std::int64_t length) { done.push_back(length); });
  EXPECT_EQ(done, (std::vector<std::int64_t>{0, 1}));
  ASSERT_EQ(file.results.size(), 4U);
  for (const Result& result : file.results) {
    EXPECT_EQ(series_of(result, "attention").time_ms.size(), 3U);
    EXPECT_EQ(series_of(result, "attention").conditions.preemptions.size(), 3U)
        << "so that disturbed times are unsettled";
    EXPECT_GT(result.memory->peak_bytes.value(), 2 * 16 * 33 * 4 * 4) << "q, k, v and the result";
  }
  EXPECT_EQ(file.results[2].name, "64 tokens, causal, 2 of 16, 1 rank");
  EXPECT_EQ(file.results[3].name, "64 tokens, causal, 2 of 16, 2 ranks");
  EXPECT_EQ(file.results[3].subject.request.at("flops").get<double>(), 4.0 * 64 * 65 / 2 * 2 * 16);
  EXPECT_THAT(to_attention_table(file).text(), testing::HasSubstr("of one rank"));
  EXPECT_EQ(backend->memory_use().total, 0U);
}

TEST(AttentionSuite, OneRankIsMeasuredOnce) {
  const std::unique_ptr<Backend> backend = make_backend(DeviceKind::kCpu, 1);
  EXPECT_EQ(bench_attention(*backend, {.tokens = {20}, .heads = 1, .head_dim = 8, .trials = 2}).results.size(), 1U);
}

TEST(AttentionSuite, NeedsTokensForAllRanks) {
  const std::unique_ptr<Backend> backend = make_backend(DeviceKind::kCpu, 2);
  EXPECT_THROW(static_cast<void>(bench_attention(*backend, {.tokens = {3}, .ranks = 2})), Error);
}

}  // namespace
}  // namespace headroom
