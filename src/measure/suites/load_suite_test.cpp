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
  for (const Result& result : file.results) EXPECT_EQ(series_of(result, "load").time_ms.size(), 2U);
  EXPECT_EQ(file.results[1].subject.request.at("bytes").get<std::uint64_t>(), kBytes);
  EXPECT_THAT(to_load_table(file).text(),
              testing::AllOf(testing::HasSubstr("mapped file"), testing::HasSubstr("41.0 MiB")));
  EXPECT_EQ(backend->memory_use().total, 0U);
}

}  // namespace
}  // namespace headroom
