#include "io/module_pattern.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "base/error.hpp"
#include "base/test_util.hpp"

namespace headroom {
namespace {

using testing::HasSubstr;

bool matches(std::string_view key, std::string_view module) { return ModulePattern(key, "config").matches(module); }

// Each as re.match(rf"(.*\.)?({key})$", module) of Python 3.11.
TEST(ModulePattern, MatchesNamesAndTheirPartsAfterADot) {
  EXPECT_TRUE(matches("to_q", "to_q"));
  EXPECT_TRUE(matches("to_q", "blocks.0.attn.to_q"));
  EXPECT_FALSE(matches("to_q", "blocks.0.attn.into_q"));
  EXPECT_FALSE(matches("to_q", "blocks.0.to_q.linear"));
  EXPECT_TRUE(matches("attn.to_q", "blocks.0.attn.to_q"));
  EXPECT_TRUE(matches("^to_k", "to_k"));
  EXPECT_FALSE(matches("^to_k", "y.to_k"));
  EXPECT_TRUE(matches("to_[qk]", "attn.to_k"));
  EXPECT_FALSE(matches("to_[qk]", "attn.to_v"));
  EXPECT_TRUE(matches(R"(blocks\.(1\d|2)\..*)", "transformer.blocks.17.attn.to_v"));
  EXPECT_FALSE(matches(R"(blocks\.(1\d|2)\..*)", "transformer.blocks.3.attn.to_v"));
  EXPECT_TRUE(matches("to_q|to_k", "attn.to_k"));
  EXPECT_TRUE(matches("", "attn."));
  EXPECT_FALSE(matches("", "attn"));
}

TEST(ModulePattern, RefusesOthers) {
  EXPECT_THAT(error_of([] { ModulePattern("to_(q", "config"); }),
              HasSubstr("config: 'to_(q' is not a regular expression: missing closing parenthesis"));
  EXPECT_THAT(error_of([] { ModulePattern("(*UCP)to_q", "config"); }), HasSubstr("has a verb or a callout"));
  EXPECT_THAT(error_of([] { ModulePattern(std::string(1001, 'a'), "config"); }),
              HasSubstr("a key has 1001 bytes, but at most 1000 are allowed"));
}

TEST(ModulePattern, EndsWithinItsLimitOfSteps) {
  const ModulePattern pattern("(a|aa)+[bc]", "config");
  EXPECT_THAT(error_of([&] { static_cast<void>(pattern.matches(std::string(64, 'a'))); }),
              HasSubstr("config: '(a|aa)+[bc]' takes more than 100000 steps to match"));
}

}  // namespace
}  // namespace headroom
