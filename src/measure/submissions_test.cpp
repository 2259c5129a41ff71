#include "measure/submissions.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

namespace headroom {
namespace {

// Reading 512 KiB that the core's own cache holds is several times as fast as from memory, on every machine.
TEST(ColdSubmissions, FindNothingInTheCaches) {
  const std::unique_ptr<Backend> backend = make_backend(DeviceKind::kCpu, 1);
  const std::unique_ptr<Stream> stream = backend->make_stream();
  std::vector<std::uint64_t> data(std::size_t{1} << 16);
  std::iota(data.begin(), data.end(), 0);
  volatile std::uint64_t sum = 0;
  const auto read = [&] { sum = std::accumulate(data.begin(), data.end(), std::uint64_t{0}); };

  CacheEvictor evictor(*backend);
  const Protocol protocol{.warmup_max = 5, .trials = 10, .max_seconds = 5};
  const Trials cold = time_cold_submissions(*backend, *stream, read, evictor, protocol);
  const Trials warm = time_submissions(*backend, *stream, read, protocol);
  ASSERT_GE(cold.wall_ms.size(), 3U);
  EXPECT_GT(*std::ranges::min_element(cold.wall_ms), 1.3 * *std::ranges::min_element(warm.wall_ms));
}

TEST(CacheEvictor, GivesItsMemoryBack) {
  const std::unique_ptr<Backend> backend = make_backend(DeviceKind::kCpu, 1);
  {
    const CacheEvictor evictor(*backend);
    EXPECT_GE(backend->memory_use().total, 2 * backend->properties().target.cache_bytes);
  }
  EXPECT_EQ(backend->memory_use().total, 0U);
}

TEST(TimeCopy, TakesLongerForMore) {
  const std::unique_ptr<Backend> backend = make_backend(DeviceKind::kCpu, 1);
  const Protocol protocol = short_protocol(*backend, 1);
  const auto best_ms = [&](std::size_t bytes) {
    const Trials trials = time_copy(*backend, bytes, protocol);
    return *std::ranges::min_element(trials.wall_ms);
  };
  EXPECT_GT(best_ms(std::size_t{64} << 20), 2 * best_ms(std::size_t{8} << 20));
}

}  // namespace
}  // namespace headroom
