#include "base/files/file_lock.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <optional>
#include <thread>
#include <vector>

#include "base/error.hpp"
#include "base/files/file.hpp"
#include "base/test_util.hpp"

namespace headroom {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

TEST(FileLock, IsHeldByOneAtATimeAndLeavesNothingBehind) {
  const TempFolder folder;
  std::optional<FileLock> first(std::in_place, folder / "a.json");
  EXPECT_THAT(error_of([&] { FileLock second(folder / "a.json"); }),
              AllOf(HasSubstr("another process is writing to"), HasSubstr("a.json")));
  const FileLock other(folder / "b.json");
  first.reset();
  EXPECT_FALSE(fs::exists(folder / "a.json.lock"));
  const FileLock again(folder / "a.json");
}

TEST(FileLock, IsOneForAllNamesOfAFile) {
  const TempFolder folder;
  write_file_atomically(folder / "a.json", "");
  fs::create_symlink(folder / "a.json", folder / "b.json");
  const FileLock lock(folder / "a.json");
  EXPECT_THAT(error_of([&] { FileLock second(folder / "b.json"); }), HasSubstr("another process"));
}

TEST(FileLock, IsWaitedForWhereThatIsAsked) {
  const TempFolder folder;
  std::atomic<int> at_once = 0, most = 0, done = 0;
  std::vector<std::jthread> threads;
  for (int i = 0; i < 8; ++i)
    threads.emplace_back([&] {
      for (int k = 0; k < 20; ++k) {
        const FileLock lock(folder / "a.json", FileLock::WhenTaken::kWait);
        most = std::max(most.load(), ++at_once);
        std::this_thread::yield();
        --at_once;
        ++done;
      }
    });
  threads.clear();
  EXPECT_EQ(most, 1);
  EXPECT_EQ(done, 160);
  EXPECT_FALSE(fs::exists(folder / "a.json.lock"));
}

TEST(FileLock, TakesOverWhatAKilledProcessLeft) {
  const TempFolder folder;
  write_file_atomically(folder / "a.json.lock", "");
  const FileLock lock(folder / "a.json");
}

TEST(FileLock, SaysWhyItCannotBeMade) {
  const TempFolder folder;
  EXPECT_THAT(error_of([&] { FileLock lock(folder / "none/a.json"); }), HasSubstr("No such file"));
}

}  // namespace
}  // namespace headroom
