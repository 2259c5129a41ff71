#include "kernels/core/parallel.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <stdexcept>
#include <vector>

namespace headroom {
namespace {

TEST(ParallelFor, VisitsEveryItemOnce) {
  for (const int threads : {1, 2, 3, 7, 70})
    for (const std::int64_t count : {0, 1, 2, 5, 64, 1000, 4099})
      for (const std::int64_t grain : {1, 3, 600}) {
        std::vector<std::atomic<int>> visits(static_cast<std::size_t>(count));
        parallel_for(threads, count, grain, [&](std::int64_t begin, std::int64_t end, int thread) {
          EXPECT_LT(begin, end);
          EXPECT_GE(thread, 0);
          EXPECT_LT(thread, threads);
          for (std::int64_t i = begin; i < end; ++i) ++visits[static_cast<std::size_t>(i)];
        });
        for (const std::atomic<int>& each : visits)
          ASSERT_EQ(each.load(), 1) << threads << " threads, " << count << " items, grain " << grain;
      }
}

TEST(ParallelFor, OthersDoWhatASlowThreadHasLeft) {
  constexpr std::int64_t kCount = 4000;
  std::atomic<std::int64_t> done = 0, by_the_slow = 0;
  parallel_for(4, kCount, 1, [&](std::int64_t begin, std::int64_t end, int thread) {
    if (thread == 0) {  // does not come back from its first part before all the rest is done
      const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
      while (done < kCount - (end - begin) && std::chrono::steady_clock::now() < deadline) {
      }
      by_the_slow += end - begin;
    }
    done += end - begin;
  });
  EXPECT_EQ(done, kCount);
  EXPECT_LE(by_the_slow, kCount / 4 / 4) << "a quarter of its share";
}

TEST(ParallelFor, ThrowsInTheCallerWhatOneThreadThrows) {
  for (const int threads : {1, 4, 70}) {
    std::atomic<std::int64_t> done = 0;
    const auto run = [&] {
      parallel_for(threads, 1000, 1, [&](std::int64_t begin, std::int64_t end, int /*thread*/) {
        for (std::int64_t i = begin; i < end; ++i)
          if (i == 700) throw std::runtime_error("item 700");
        done += end - begin;
      });
    };
    EXPECT_THROW(run(), std::runtime_error) << threads << " threads";
    EXPECT_GE(done, threads == 1 ? 0 : 700) << "the others stopped";
    EXPECT_LT(done, 1000);
  }
  std::atomic<int> items = 0;  // and the team is there for the next loop
  parallel_for(4, 100, 1, [&](std::int64_t begin, std::int64_t end, int) { items += static_cast<int>(end - begin); });
  EXPECT_EQ(items, 100);
}

TEST(ParallelFor, IsSerialInsideAParallelRegionAndBelowTwoGrains) {
  int calls = 0;
  parallel_for(4, 9, 5, [&](std::int64_t begin, std::int64_t end, int thread) {
    EXPECT_EQ(begin, 0);
    EXPECT_EQ(end, 9);
    EXPECT_EQ(thread, 0);
    ++calls;
  });
  EXPECT_EQ(calls, 1);
  std::atomic<int> inner = 0;
#pragma omp parallel num_threads(2)
  parallel_for(4, 100, 1, [&](std::int64_t begin, std::int64_t end, int thread) {
    EXPECT_EQ(end - begin, 100);
    EXPECT_EQ(thread, 0);
    ++inner;
  });
  EXPECT_GE(inner.load(), 1);
}

}  // namespace
}  // namespace headroom
