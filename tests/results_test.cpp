// What the documents quote: every committed result file reads back, and a peer's work is ours.

#include <gtest/gtest.h>

#include <filesystem>
#include <set>
#include <string>

#include "measure/result.hpp"

namespace headroom {
namespace {

namespace fs = std::filesystem;

const fs::path kResults = fs::path(HEADROOM_SOURCE_DIR) / "bench/results";

TEST(CommittedResults, AllReadBack) {
  int files = 0;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(kResults)) {
    if (entry.path().extension() != ".json") continue;
    EXPECT_FALSE(read_results(entry.path()).results.empty()) << entry.path();
    ++files;
  }
  EXPECT_GE(files, 8);
}

TEST(CommittedResults, PeersRanTheSameWork) {
  std::set<std::string> hashes, sources;
  for (const fs::directory_entry& entry : fs::directory_iterator(kResults / "cpu/peers"))
    for (const Result& result : read_results(entry.path()).results) {
      hashes.insert(work_hash(result.subject));
      sources.insert(result.source.name);
    }
  EXPECT_EQ(hashes.size(), 1U);
  EXPECT_EQ(sources, (std::set<std::string>{"headroom", "pytorch"}));
}

}  // namespace
}  // namespace headroom
