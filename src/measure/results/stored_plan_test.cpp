#include "measure/results/stored_plan.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include "base/files/file.hpp"
#include "base/test_paths.hpp"
#include "base/test_util.hpp"
#include "base/text/json.hpp"
#include "measure/results/result.hpp"
#include "measure/results/result_folder.hpp"

namespace headroom {
namespace {

using testing::HasSubstr;

void write_gzip(const std::filesystem::path& path, const std::string& text) {
  const gzFile file = gzopen(path.c_str(), "wb");
  ASSERT_NE(file, nullptr);
  ASSERT_EQ(gzwrite(file, text.data(), static_cast<unsigned>(text.size())), static_cast<int>(text.size()));
  ASSERT_EQ(gzclose(file), Z_OK);
}

/// A result file that contains its one plan.
nlohmann::json document_with_plan() {
  return read_json(std::filesystem::path(kSourceDir) / "docs" / "result.example.json");
}

class StoredPlan : public testing::Test {
 protected:
  void SetUp() override { std::filesystem::create_directory(folder_.path() / "plans"); }
  std::string fault(const std::string& name) {
    return error_of([&] { (void)read_stored_plan(folder_.path(), name, "plan 'p' of a.json"); });
  }
  TempFolder folder_;
};

TEST_F(StoredPlan, IsTheSameInAFileOfItsOwnAsInTheResultFile) {
  nlohmann::json document = document_with_plan();
  const ResultFile held = results_from_json(document, "the example");
  ASSERT_FALSE(held.plans.empty());
  int number = 0;
  for (auto& [id, plan] : document["plans"].items()) {
    const std::string name = fmt::format("plans/{:04x}.json.gz", number++);
    write_gzip(folder_.path() / name, plan.dump());
    plan = name;
  }
  write_file_atomically(folder_.path() / "a.json", document.dump());
  EXPECT_EQ(read_results(folder_.path() / "a.json"), held);
}

TEST_F(StoredPlan, LiesNextToPackedResultsAndIsNoneItself) {
  nlohmann::json document = document_with_plan();
  const ResultFile held = results_from_json(document, "the example");
  write_gzip(folder_.path() / "plans/00.json.gz", document["plans"].begin().value().dump());
  document["plans"].begin().value() = "plans/00.json.gz";
  write_gzip(folder_.path() / "a.json.gz", document.dump());
  std::vector<std::string> left_out;
  const std::vector<NamedResults> files = read_result_folder(folder_.path(), left_out);
  ASSERT_EQ(files.size(), 1U);
  EXPECT_EQ(files[0].second, held);
  EXPECT_THAT(left_out, testing::IsEmpty());
}

TEST_F(StoredPlan, RefusesNamesThatLeadElsewhere) {
  for (const char* name : {"../plans/00.json.gz", "plans/../00.json.gz", "/plans/00.json.gz", "plans/.json.gz",
                           "plans/00.json", "00.json.gz", "plans/0/0.json.gz", "plans/0G.json.gz", ""})
    EXPECT_THAT(fault(name), HasSubstr("expected plans/HASH.json.gz")) << name;
}

TEST_F(StoredPlan, NamesTheFileThatIsMissingCutOffOrNoGzip) {
  EXPECT_THAT(fault("plans/00.json.gz"), HasSubstr("plans/00.json.gz, which is not there"));
  write_gzip(folder_.path() / "plans/01.json.gz", R"({"nodes": []})");
  const std::string whole = read_file(folder_.path() / "plans/01.json.gz");
  write_file_atomically(folder_.path() / "plans/02.json.gz", whole.substr(0, whole.size() - 9));
  EXPECT_THAT(fault("plans/02.json.gz"), HasSubstr("02.json.gz is cut off or no gzip file"));
  write_file_atomically(folder_.path() / "plans/03.json.gz", R"({"nodes": []})");
  EXPECT_THAT(fault("plans/03.json.gz"), HasSubstr("03.json.gz is cut off or no gzip file"));
  write_file_atomically(folder_.path() / "plans/04.json.gz", "");
  EXPECT_THAT(fault("plans/04.json.gz"), HasSubstr("04.json.gz is cut off or no gzip file"));
}

TEST_F(StoredPlan, RefusesWhatUnpacksToMoreThanAPlanTakes) {
  write_gzip(folder_.path() / "plans/05.json.gz", std::string(std::size_t{64} << 20, ' ') + "{}");
  EXPECT_THAT(fault("plans/05.json.gz"), HasSubstr("unpacks to more than"));
}

TEST_F(StoredPlan, HasNoFolderWhereADocumentIsNoFile) {
  nlohmann::json document = document_with_plan();
  document["plans"].begin().value() = "plans/00.json.gz";
  EXPECT_THAT(error_of([&] { (void)results_from_json(document, "standard input"); }), HasSubstr("not there"));
}

}  // namespace
}  // namespace headroom
