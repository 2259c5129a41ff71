#include "measure/protocol/submissions.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <memory>

namespace headroom {
namespace {

TEST(ColdSubmissions, RunOnceForEachTrialAndWarmUp) {
  const std::unique_ptr<Backend> backend = make_backend(DeviceKind::kCpu, 1);
  const std::unique_ptr<Stream> stream = backend->make_stream();
  std::size_t runs = 0;
  CacheEvictor evictor(*backend);
  const Protocol protocol{.warmup_max = 5, .trials = 10, .max_seconds = 5};
  const Trials cold = time_cold_submissions(
      *backend, *stream, [&] { ++runs; }, evictor, protocol);
  ASSERT_GE(cold.wall_ms.size(), 3U);
  EXPECT_EQ(runs, cold.wall_ms.size() + static_cast<std::size_t>(cold.warmup));
}

TEST(Submissions, LongWorkIsRecordedLessOften) {
  EXPECT_EQ(launches_in_trial(0.01, false), 100);
  EXPECT_EQ(launches_in_trial(1, false), 20);
  EXPECT_EQ(launches_in_trial(5, false), 4);
  EXPECT_EQ(launches_in_trial(100, false), 1);
  EXPECT_EQ(launches_in_trial(5, true), 1);
}

TEST(CacheEvictor, GivesItsMemoryBack) {
  const std::unique_ptr<Backend> backend = make_backend(DeviceKind::kCpu, 1);
  {
    const CacheEvictor evictor(*backend);
    EXPECT_GE(backend->memory_use().total, 2 * backend->properties().target.cache_bytes);
  }
  EXPECT_EQ(backend->memory_use().total, 0U);
}

}  // namespace
}  // namespace headroom
