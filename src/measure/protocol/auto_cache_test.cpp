#include "measure/protocol/auto_cache.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <random>

#include "base/error.hpp"
#include "base/files/file.hpp"

namespace headroom {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class AutoCacheTest : public testing::Test {
 protected:
  ~AutoCacheTest() override { fs::remove_all(folder_); }

  std::string error_of_find(const nlohmann::json& key) const {
    try {
      static_cast<void>(cache_.find(key));
    } catch (const Error& error) {
      return error.what();
    }
    return "(no error)";
  }

  fs::path folder_ = fs::temp_directory_path() / ("headroom-auto-" + std::to_string(std::random_device()()));
  AutoCache cache_{folder_ / "deep"};
  nlohmann::json key_ = {{"model", "m"}, {"seconds", 10.0}};
  AutoCache::Entry entry_{.choice = {.switches = SwitchSet::parse("arena,steps=4"),
                                     .trials = {{.switch_name = "arena",
                                                 .without_ms = 2,
                                                 .with_ms = 1,
                                                 .factor = 2,
                                                 .interval = Interval{1.9, 2.1},
                                                 .error = {},
                                                 .kept = true,
                                                 .why = "it pays"},
                                                {.switch_name = "bf16",
                                                 .without_ms = {},
                                                 .with_ms = {},
                                                 .factor = {},
                                                 .interval = {},
                                                 .error = 0.25,
                                                 .kept = false,
                                                 .why = "its error is over 0.05"}}},
                          .created = "2025-03-14T09:26:53Z"};
};

TEST_F(AutoCacheTest, GivesBackWhatWasStoredUnderTheSameKeyOnly) {
  EXPECT_FALSE(cache_.find(key_).has_value());
  cache_.store(key_, entry_);
  const std::optional<AutoCache::Entry> found = cache_.find(key_);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->choice.switches.to_string(), "arena,steps=4");
  EXPECT_EQ(found->choice.trials, entry_.choice.trials);
  EXPECT_EQ(found->created, entry_.created);
  for (const char* other : {R"({"model": "n", "seconds": 10.0})", R"({"model": "m", "seconds": 9.0})", "{}"})
    EXPECT_FALSE(cache_.find(nlohmann::json::parse(other)).has_value()) << other;
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_ / "deep"), {}), 1) << "nothing temporary is left";
}

TEST_F(AutoCacheTest, RefusesABrokenFile) {
  cache_.store(key_, entry_);
  const std::string good = read_file(cache_.file_of(key_));
  for (const std::size_t length : {std::size_t{0}, good.size() / 3, good.size() - 3}) {
    write_file_atomically(cache_.file_of(key_), std::string_view(good).substr(0, length));
    EXPECT_NE(error_of_find(key_), "(no error)") << length;
  }
  const auto with = [&](std::string_view from, std::string_view to) {
    std::string text = good;
    text.replace(text.find(from), from.size(), to);
    write_file_atomically(cache_.file_of(key_), text);
    return error_of_find(key_);
  };
  EXPECT_THAT(with("headroom.auto/1", "headroom.auto/9"), HasSubstr("schema"));
  EXPECT_THAT(with("arena,steps=4", "arena,warp=4"), HasSubstr("unknown switch"));
  EXPECT_THAT(with("\"model\": \"m\"", "\"model\": \"q\""), HasSubstr("another request"));
  EXPECT_THAT(with("\"kept\": true", "\"kept\": 7"), HasSubstr("kept"));
}

TEST_F(AutoCacheTest, LiesWhereTheUserKeepsCaches) {
  const auto folder = [&] { return AutoCache::of_user()->file_of(key_).parent_path(); };
  const char* const variables[] = {"XDG_CACHE_HOME", "HOME"};
  std::vector<std::optional<std::string>> saved;
  for (const char* name : variables) {
    const char* value = std::getenv(name);
    saved.push_back(value == nullptr ? std::nullopt : std::optional<std::string>(value));
  }
  setenv("HOME", "/home/someone", 1);
  setenv("XDG_CACHE_HOME", "/caches", 1);
  EXPECT_EQ(folder(), "/caches/headroom/auto");
  setenv("XDG_CACHE_HOME", "relative", 1);
  EXPECT_EQ(folder(), "/home/someone/.cache/headroom/auto");
  unsetenv("XDG_CACHE_HOME");
  EXPECT_EQ(folder(), "/home/someone/.cache/headroom/auto");
  unsetenv("HOME");
  EXPECT_FALSE(AutoCache::of_user().has_value());
  for (std::size_t i = 0; i < saved.size(); ++i)
    saved[i] ? setenv(variables[i], saved[i]->c_str(), 1) : unsetenv(variables[i]);
}

}  // namespace
}  // namespace headroom
