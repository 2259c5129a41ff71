#include "base/file_lock.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <optional>

#include "base/error.hpp"
#include "base/file.hpp"
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
