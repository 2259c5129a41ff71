#include "tune/tuning_cache.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>

#include "base/files/file.hpp"
#include "base/test_util.hpp"

namespace headroom::tune {
namespace {

const TuningCache::Machine kMachine{.device = "NVIDIA H200", .driver = "580.1", .library = "cuBLASLt 130100"};

TEST(TuningCache, KeepsEarlierEntriesWhenItStores) {
  const TempFolder folder;
  TuningCache cache(folder / "deep/algorithms", kMachine);
  EXPECT_EQ(cache.find("a"), std::nullopt);
  cache.store("a", "0123", 12.5);
  cache.store("b", "4567", 1);
  cache.store("a", "89ab", 11);
  TuningCache again(folder / "deep/algorithms", kMachine);
  EXPECT_EQ(again.find("a"), "89ab");
  EXPECT_EQ(again.find("b"), "4567");
  EXPECT_EQ(again.find("c"), std::nullopt);
}

TEST(TuningCache, KeepsMachinesApart) {
  const TempFolder folder;
  TuningCache cache(folder.path(), kMachine);
  cache.store("a", "0123", 1);
  for (const auto member :
       {&TuningCache::Machine::device, &TuningCache::Machine::driver, &TuningCache::Machine::library}) {
    TuningCache::Machine other = kMachine;
    other.*member += "x";
    EXPECT_NE(TuningCache(folder.path(), other).file(), cache.file());
    EXPECT_EQ(TuningCache(folder.path(), other).find("a"), std::nullopt);
  }
}

TEST(TuningCache, SeesWhatAnotherProcessStores) {
  const TempFolder folder;
  TuningCache cache(folder.path(), kMachine), other(folder.path(), kMachine);
  cache.store("a", "0123", 1, {.family = "letters", .size = {1}});
  other.store("b", "4567", 2);
  EXPECT_EQ(cache.find("b"), "4567");
  cache.store("c", "89ab", 3);
  EXPECT_EQ(other.find("a"), "0123");
  EXPECT_EQ(other.find("c"), "89ab");
  EXPECT_THAT(other.find_family("letters"), testing::ElementsAre(TunedSize{"0123", {1}}));
  std::filesystem::remove(cache.file());
  EXPECT_EQ(other.find("a"), std::nullopt);
}

TEST(TuningCache, ReadsAFileAgainOnlyWhereItMayHaveChanged) {
  const TempFolder folder;
  TuningCache cache(folder.path(), kMachine);
  cache.store("a", "0123", 1);
  const std::string stored = read_file(cache.file());
  const auto write = [&](const std::string& algorithm, std::filesystem::file_time_type written) {
    std::string text = stored;
    text.replace(text.find("0123"), 4, algorithm);
    std::ofstream(cache.file()) << text;
    std::filesystem::last_write_time(cache.file(), written);
  };
  const auto now = std::filesystem::file_time_type::clock::now();
  const auto before = now - std::chrono::hours(1), later = now + std::chrono::hours(1);
  write("0123", before);
  EXPECT_EQ(cache.find("a"), "0123");
  write("4567", before);
  EXPECT_EQ(cache.find("a"), "0123") << "of the same time and size";
  write("4567", before + std::chrono::minutes(1));
  EXPECT_EQ(cache.find("a"), "4567");
  write("89abcd", before + std::chrono::minutes(1));
  EXPECT_EQ(cache.find("a"), "89abcd") << "of another size";
  for (const char* algorithm : {"cdef", "0246"}) {
    write(algorithm, later);
    EXPECT_EQ(cache.find("a"), algorithm) << "what is just being written may be written again at the same time";
  }
}

TEST(TuningCache, KeepsSizesOfAFamily) {
  const TempFolder folder;
  TuningCache cache(folder.path(), kMachine);
  cache.store("a small", "0123", 1, {.family = "a", .size = {1, 32, 32}});
  cache.store("a large", "4567", 9, {.family = "a", .size = {1, 64, 64}});
  cache.store("b small", "89ab", 1, {.family = "b", .size = {1, 32, 32}});
  cache.store("alone", "cdef", 1);
  cache.store("a large", "ffff", 8, {.family = "a", .size = {1, 64, 64}});
  TuningCache again(folder.path(), kMachine);
  using testing::UnorderedElementsAre, testing::IsEmpty;
  EXPECT_THAT(again.find_family("a"),
              UnorderedElementsAre(TunedSize{"0123", {1, 32, 32}}, TunedSize{"ffff", {1, 64, 64}}));
  EXPECT_THAT(again.find_family("b"), UnorderedElementsAre(TunedSize{"89ab", {1, 32, 32}}));
  EXPECT_THAT(again.find_family("c"), IsEmpty());
  EXPECT_THAT(again.find_family(""), IsEmpty()) << "work without a size key has no family";
  EXPECT_EQ(again.find("a small"), "0123");
}

/// Entries of early versions, or written by another program.
TEST(TuningCache, TakesEntriesWithoutASizeKey) {
  const TempFolder folder;
  TuningCache cache(folder.path(), kMachine);
  cache.store("a", "0123", 1, {.family = "letters", .size = {1}});
  const std::string stored = read_file(cache.file());
  for (const char* size : {"\"large\"", "[\"1\"]", "[0.5]", "null"}) {
    std::string text = stored;
    const std::size_t at = text.find('[', text.find("\"size\""));
    text.replace(at, text.find(']', at) + 1 - at, size);
    std::ofstream(cache.file()) << text;
    EXPECT_THAT(cache.find_family("letters"), testing::IsEmpty()) << size;
    EXPECT_EQ(cache.find("a"), "0123") << size;
  }
  cache.store("b", "4567", 1);
  EXPECT_EQ(cache.find("a"), "0123");
}

TEST(TuningCache, TakesNothingFromAFileThatIsBroken) {
  const TempFolder folder;
  TuningCache cache(folder.path(), kMachine);
  for (const char* text :
       {"", "{", "[]", R"({"schema": 3})", R"({"schema": "headroom.algorithms/1"})",
        R"({"schema": "headroom.algorithms/1", "machine": {}, "work": {"a": {"algorithm": "00"}}})"}) {
    std::ofstream(cache.file()) << text;
    EXPECT_EQ(cache.find("a"), std::nullopt) << text;
  }
  cache.store("a", "0123", 1);
  EXPECT_EQ(cache.find("a"), "0123");
  std::string text = read_file(cache.file());
  text.replace(text.find("\"0123\""), 6, "    17");
  std::ofstream(cache.file()) << text;
  EXPECT_EQ(cache.find("a"), std::nullopt);
}

TEST(TuningCache, DoesWithoutAPlaceToWrite) {
  const TempFolder folder;
  std::ofstream(folder / "file") << "in its place";
  TuningCache cache(folder / "file/algorithms", kMachine);
  cache.store("a", "0123", 1);
  EXPECT_EQ(cache.find("a"), std::nullopt);
}

}  // namespace
}  // namespace headroom::tune
