#include "kernels/cuda/algorithm_cache.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "base/file.hpp"
#include "base/test_util.hpp"

namespace headroom::cuda {
namespace {

const AlgorithmCache::Machine kMachine{.device = "NVIDIA H200", .driver = "580.1", .library = "cuBLASLt 130100"};

TEST(AlgorithmCache, KeepsWhatWasStoredBesideTheRest) {
  const TempFolder folder;
  const AlgorithmCache cache(folder / "deep/algorithms", kMachine);
  EXPECT_EQ(cache.find("a"), std::nullopt);
  cache.store("a", "0123", 12.5);
  cache.store("b", "4567", 1);
  cache.store("a", "89ab", 11);
  const AlgorithmCache again(folder / "deep/algorithms", kMachine);
  EXPECT_EQ(again.find("a"), "89ab");
  EXPECT_EQ(again.find("b"), "4567");
  EXPECT_EQ(again.find("c"), std::nullopt);
}

TEST(AlgorithmCache, KeepsMachinesApart) {
  const TempFolder folder;
  const AlgorithmCache cache(folder.path(), kMachine);
  cache.store("a", "0123", 1);
  for (const auto member :
       {&AlgorithmCache::Machine::device, &AlgorithmCache::Machine::driver, &AlgorithmCache::Machine::library}) {
    AlgorithmCache::Machine other = kMachine;
    other.*member += "x";
    EXPECT_NE(AlgorithmCache(folder.path(), other).file(), cache.file());
    EXPECT_EQ(AlgorithmCache(folder.path(), other).find("a"), std::nullopt);
  }
}

TEST(AlgorithmCache, TakesNothingFromAFileThatIsBroken) {
  const TempFolder folder;
  const AlgorithmCache cache(folder.path(), kMachine);
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

TEST(AlgorithmCache, DoesWithoutAPlaceToWrite) {
  const TempFolder folder;
  std::ofstream(folder / "file") << "in the way";
  const AlgorithmCache cache(folder / "file/algorithms", kMachine);
  cache.store("a", "0123", 1);
  EXPECT_EQ(cache.find("a"), std::nullopt);
}

}  // namespace
}  // namespace headroom::cuda
