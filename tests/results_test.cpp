// What the documents quote: every committed result file reads back, and a peer's work is ours.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/test_paths.hpp"
#include "measure/results/result.hpp"
#include "measure/results/result_folder.hpp"

namespace headroom {
namespace {

namespace fs = std::filesystem;

const fs::path kResults = fs::path(kSourceDir) / "bench/results";

TEST(CommittedResults, AllReadBack) {
  int files = 0;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(kResults)) {
    const bool is_packed = entry.path().extension() == ".gz" && entry.path().parent_path().filename() != "plans";
    if (entry.path().extension() != ".json" && !is_packed) continue;
    EXPECT_FALSE(read_results(entry.path()).results.empty()) << entry.path();
    ++files;
  }
  EXPECT_GE(files, 8);
}

TEST(CommittedResults, PeersRanTheSameWork) {
  for (const char* folder : {"cpu/peers", "h200/peers"}) {
    std::map<std::string, std::set<std::string>> hashes;  // by who ran it
    std::vector<std::string> left_out;
    for (const auto& [path, file] : read_result_folder(kResults / folder, left_out))
      for (const Result& result : file.results) hashes[result.source.name].insert(work_hash(result.subject));
    EXPECT_THAT(left_out, testing::IsEmpty());
    EXPECT_TRUE(hashes.contains("headroom") && hashes.contains("pytorch")) << folder;
    for (const auto& [program, work] : hashes) EXPECT_EQ(work, hashes["headroom"]) << program << " in " << folder;
  }
}

}  // namespace
}  // namespace headroom
