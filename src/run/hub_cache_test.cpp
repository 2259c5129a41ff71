#include "run/hub_cache.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "base/files/file.hpp"
#include "base/test_util.hpp"
#include "run/component.hpp"
#include "run/model_folders.hpp"

namespace headroom {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

class HubCacheTest : public testing::Test {
 protected:
  HubCacheTest() {
    for (const char* variable : {"HF_HUB_CACHE", "HF_HOME", "XDG_CACHE_HOME"}) unsetenv(variable);
    setenv("HF_HOME", folder_.path().c_str(), 1);
  }
  ~HubCacheTest() override { unsetenv("HF_HOME"); }

  /// A snapshot of a model, with an empty configuration.
  fs::path add(const std::string& model, const std::string& commit) const {
    const fs::path snapshot = folder_ / ("hub/" + model) / "snapshots" / commit;
    fs::create_directories(snapshot);
    write_file_atomically(snapshot / "config.json", "{}");
    return snapshot;
  }
  void refer(const std::string& model, const std::string& text) const {
    fs::create_directories(folder_ / ("hub/" + model) / "refs");
    write_file_atomically(folder_ / ("hub/" + model) / "refs/main", text);
  }

  TempFolder folder_;
};

TEST_F(HubCacheTest, LiesWhereTheHubsProgramsKeepIt) {
  EXPECT_EQ(hub_cache_folder(), folder_ / "hub");
  setenv("HF_HUB_CACHE", "/elsewhere", 1);
  EXPECT_EQ(hub_cache_folder(), "/elsewhere");
  unsetenv("HF_HUB_CACHE");
  unsetenv("HF_HOME");
  setenv("XDG_CACHE_HOME", "/caches", 1);
  EXPECT_EQ(hub_cache_folder(), "/caches/huggingface/hub");
  unsetenv("XDG_CACHE_HOME");
  EXPECT_EQ(hub_cache_folder(), fs::path(std::getenv("HOME")) / ".cache/huggingface/hub");
}

TEST_F(HubCacheTest, AModelIsFoundByItsNameAndItsMainSnapshotOpened) {
  add("models--fox--small-1.0", "old");
  const fs::path snapshot = add("models--fox--small-1.0", "new");
  refer("models--fox--small-1.0", "new\n");
  const auto found = find_in_hub_cache("fox/small-1.0");
  ASSERT_TRUE(found);
  EXPECT_TRUE(is_hub_folder(*found));
  EXPECT_FALSE(is_hub_folder(snapshot));
  EXPECT_EQ(hub_snapshot(*found), snapshot);
  EXPECT_EQ(find_model_folder("fox/small-1.0"), snapshot);
  EXPECT_EQ(find_model_folder(found->string()), snapshot);
  EXPECT_EQ(model_name_of(snapshot), "small-1.0");
  EXPECT_EQ(model_name_of("/models/small/"), "small");
  EXPECT_THAT(names_in_hub_cache(), ElementsAre("fox/small-1.0"));
  EXPECT_FALSE(find_in_hub_cache("fox/large"));
}

TEST_F(HubCacheTest, WithoutAReferenceTheOnlySnapshotIsMeant) {
  const fs::path snapshot = add("models--a--b", "one");
  EXPECT_EQ(hub_snapshot(folder_ / "hub/models--a--b"), snapshot);
  add("models--a--b", "two");
  EXPECT_THAT(error_of([&] { static_cast<void>(hub_snapshot(folder_ / "hub/models--a--b")); }),
              HasSubstr("has 2 snapshots and no refs/main to name one"));
}

TEST_F(HubCacheTest, AReferenceLeadsNowhereElse) {
  add("models--a--b", "one");
  for (const char* wrong : {"../../other", "..", ".", "", "a/b", "/etc"}) {
    refer("models--a--b", wrong);
    EXPECT_THAT(error_of([&] { static_cast<void>(hub_snapshot(folder_ / "hub/models--a--b")); }),
                HasSubstr("expected the name of a snapshot"))
        << wrong;
  }
  refer("models--a--b", "gone");
  EXPECT_THAT(error_of([&] { static_cast<void>(hub_snapshot(folder_ / "hub/models--a--b")); }),
              HasSubstr("the download may be incomplete"));
}

TEST_F(HubCacheTest, NamesHaveAnOrganizationAndAModel) {
  for (const char* name : {"black-forest-labs/FLUX.1-dev", "a/b_c"}) EXPECT_TRUE(is_hub_name(name)) << name;
  for (const char* name : {"FLUX.1-dev", "a/b/c", "/a", "a/", "../a", "a/..", "a b/c", ""})
    EXPECT_FALSE(is_hub_name(name)) << name;
}

TEST_F(HubCacheTest, AnUnknownModelIsReportedWithTheCommandThatGetsIt) {
  const auto refusal = [](const std::string& name) {
    return error_of([&] { static_cast<void>(open_component(name)); });
  };
  EXPECT_THAT(refusal("black-forest-labs/FLUX.1-dev"),
              testing::AllOf(HasSubstr((folder_ / "hub").string() + " does not hold it"),
                             HasSubstr("hf download black-forest-labs/FLUX.1-dev")));
  add("models--fox--small", "one");
  EXPECT_THAT(refusal("small"), HasSubstr("the cache of the Hugging Face hub holds 'fox/small'"));
  EXPECT_THAT(refusal("models/no-such"), testing::Not(HasSubstr("hf download")));
  EXPECT_THAT(refusal("no-such"), HasSubstr("models that ship were looked for in "));
  EXPECT_THAT(refusal(folder_.path().string() + "/hbu"), HasSubstr("did you mean '" + (folder_ / "hub").string()));
}

TEST_F(HubCacheTest, ModelFoldersAreFoundAtAnyDepthAndOnceEach) {
  const fs::path deep = add("models--a--b", "one") / "unet" / "deeper";
  fs::create_directories(deep);
  write_file_atomically(deep / "model_index.json", "{}");
  fs::create_directory_symlink(folder_.path(), deep / "loop");
  fs::create_directory_symlink(deep, folder_ / "zz-again");
  fs::create_directories(folder_ / ".hidden");
  write_file_atomically(folder_ / ".hidden/config.json", "{}");
  EXPECT_THAT(find_model_folders(folder_.path()), ElementsAre(deep.parent_path().parent_path(), deep));
}

}  // namespace
}  // namespace headroom
