#include "kernels/vendor/nvrtc/cubin_cache.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <chrono>
#include <cstdint>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "base/files/file.hpp"
#include "base/test_util.hpp"

namespace headroom::nvrtc {
namespace {

namespace fs = std::filesystem;

void write(const fs::path& file, const std::string& content) { std::ofstream(file, std::ios::binary) << content; }

unsigned mode_of(const fs::path& path) {
  struct stat status {};
  return ::stat(path.c_str(), &status) == 0 ? status.st_mode & 07777U : 0;
}

/// As if it had been used last this many seconds ago.
void age(const fs::path& file, int seconds) {
  fs::last_write_time(file, fs::file_time_type::clock::now() - std::chrono::seconds(seconds));
}

TEST(CubinCache, GivesBackWhatWasStored) {
  const TempFolder folder;
  const CubinCache cache(folder / "deep/kernels");
  const std::string cubin(
      "\x7f"
      "ELF\0\n\xff",
      7);
  EXPECT_EQ(cache.find("a"), std::nullopt);
  cache.store("a", cubin);
  cache.store("b", "");
  const CubinCache again(folder / "deep/kernels");
  EXPECT_EQ(again.find("a"), cubin);
  EXPECT_EQ(again.find("b"), "");
  EXPECT_EQ(again.find("c"), std::nullopt);
  again.store("a", "other");
  EXPECT_EQ(cache.find("a"), "other");
  EXPECT_EQ(mode_of(folder / "deep/kernels"), 0700U);
}

TEST(CubinCache, IgnoresAndReplacesAFileThatIsBroken) {
  const TempFolder folder;
  const CubinCache cache(folder / "kernels");
  cache.store("key", "machine code");
  const fs::path file = cache.file_of("key");
  const std::string good = read_file(file);
  for (std::size_t length = 0; length < good.size(); ++length) {
    write(file, good.substr(0, length));
    EXPECT_EQ(cache.find("key"), std::nullopt) << length << " bytes of " << good.size();
  }
  for (std::size_t i = 0; i < good.size(); ++i) {
    std::string changed = good;
    changed[i] = static_cast<char>(changed[i] ^ 1);
    write(file, changed);
    EXPECT_EQ(cache.find("key"), std::nullopt) << "byte " << i;
  }
  write(file, good + "x");
  EXPECT_EQ(cache.find("key"), std::nullopt);
  cache.store("key", "machine code");
  EXPECT_EQ(cache.find("key"), "machine code");
}

TEST(CubinCache, TakesNothingFromAFileOfAnotherKey) {
  const TempFolder folder;
  const CubinCache cache(folder / "kernels");
  cache.store("one", "machine code");
  fs::copy_file(cache.file_of("one"), cache.file_of("two"));
  EXPECT_EQ(cache.find("two"), std::nullopt);
}

TEST(CubinCache, RemovesWhatWasNotUsedForLongest) {
  const TempFolder folder;
  const std::string cubin(1000, 'x');
  const CubinCache cache(folder / "kernels", 3500);
  int seconds = 100;
  for (const char* key : {"a", "b", "c"}) {
    cache.store(key, cubin);
    age(cache.file_of(key), --seconds);
  }
  write(folder / "kernels/notes.txt", std::string(5000, 'x'));  // not the cache's
  EXPECT_EQ(cache.find("a"), cubin);                            // used now
  cache.store("d", cubin);
  EXPECT_EQ(cache.find("b"), std::nullopt);
  for (const char* key : {"a", "c", "d"}) EXPECT_EQ(cache.find(key), cubin) << key;
  EXPECT_TRUE(fs::exists(folder / "kernels/notes.txt"));

  for (const char* key : {"a", "c", "d"}) age(cache.file_of(key), -100);  // of a clock that was wrong
  cache.store("e", cubin);
  EXPECT_EQ(cache.find("e"), cubin);
}

TEST(CubinCache, RemovesWhatAKilledWriterLeft) {
  const TempFolder folder;
  const CubinCache cache(folder / "kernels", 3500);
  cache.store("a", "machine code");
  fs::path left = cache.file_of("b");
  left += ".1-0.tmp";
  write(left, std::string(4000, 'x'));
  age(left, 10);
  cache.store("c", "machine code");
  EXPECT_FALSE(fs::exists(left));
  EXPECT_EQ(cache.find("a"), "machine code");
  EXPECT_EQ(cache.find("c"), "machine code");
}

TEST(CubinCache, DoesNotKeepWhatIsLargerThanAllItMayTake) {
  const TempFolder folder;
  const CubinCache cache(folder / "kernels", 1000);
  cache.store("a", "machine code");
  cache.store("b", std::string(1000, 'x'));
  EXPECT_EQ(cache.find("a"), "machine code");
  EXPECT_EQ(cache.find("b"), std::nullopt);
}

TEST(CubinCache, DoesWithoutAPlaceToWrite) {
  const TempFolder folder;
  write(folder / "file", "not a folder");
  for (const char* place : {"file", "file/kernels"}) {
    const CubinCache cache(folder / place);
    cache.store("a", "machine code");
    EXPECT_EQ(cache.find("a"), std::nullopt);
  }
  const CubinCache cache(folder / "kernels");
  fs::create_directories(cache.file_of("a"));  // where the file would be
  ::chmod((folder / "kernels").c_str(), 0700);
  cache.store("a", "machine code");
  EXPECT_EQ(cache.find("a"), std::nullopt);

  cache.store("b", "machine code");
  ::chmod((folder / "kernels").c_str(), 0500);  // which does not stop root
  cache.store("c", "machine code");
  EXPECT_EQ(cache.find("b"), "machine code");
  ::chmod((folder / "kernels").c_str(), 0700);
}

TEST(CubinCache, TakesNothingFromAFolderThatOthersCanWriteTo) {
  const TempFolder folder;
  const CubinCache cache(folder / "kernels");
  cache.store("a", "machine code");
  for (const unsigned mode : {0770U, 0707U}) {
    ::chmod((folder / "kernels").c_str(), mode);
    cache.store("b", "machine code");
    EXPECT_EQ(cache.find("a"), std::nullopt);
    EXPECT_FALSE(fs::exists(cache.file_of("b")));
  }
  ::chmod((folder / "kernels").c_str(), 0755);
  EXPECT_EQ(cache.find("a"), "machine code");
}

TEST(CubinCache, TakesSeveralWritersAtOnce) {
  const TempFolder folder;
  constexpr int kRounds = 40;
  const auto code_of = [](int i) { return std::string(500, static_cast<char>('a' + i % 7)); };
  const auto work = [&] {
    const CubinCache cache(folder / "kernels", 4000);  // a few of them
    for (int i = 0; i < kRounds; ++i) {
      const std::string key = std::to_string(i % 10);
      cache.store(key, code_of(i % 10));
      const std::optional<std::string> found = cache.find(key);  // the other may have removed it
      EXPECT_EQ(found.value_or(code_of(i % 10)), code_of(i % 10));
    }
  };
  { std::jthread one(work), two(work); }
  std::uint64_t bytes = 0;
  int files = 0;
  for (const auto& entry : fs::directory_iterator(folder / "kernels")) {
    EXPECT_EQ(entry.path().extension(), ".cubin");
    bytes += entry.file_size();
    ++files;
  }
  EXPECT_LE(bytes, 4000U);
  EXPECT_GT(files, 0);
}

}  // namespace
}  // namespace headroom::nvrtc
