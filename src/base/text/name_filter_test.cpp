#include "base/text/name_filter.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/error.hpp"
#include "base/test_util.hpp"

namespace headroom {
namespace {

TEST(NameFilter, TakesWhatMatchesSomewhere) {
  const NameFilter filter("^linear|bf16$");
  EXPECT_TRUE(filter.takes("linear f32 8x8"));
  EXPECT_TRUE(filter.takes("gelu bf16"));
  EXPECT_FALSE(filter.takes("scaled_linear i8"));
  EXPECT_TRUE(NameFilter("").takes("anything"));
}

TEST(NameFilter, TakesWhatMatchesAsAWhole) {
  const NameFilter filter("flux|tiny[0-9]+");
  EXPECT_TRUE(filter.takes_whole("flux"));
  EXPECT_TRUE(filter.takes_whole("tiny12"));
  EXPECT_FALSE(filter.takes_whole("fashion-flux"));
  EXPECT_FALSE(filter.takes_whole("tiny12x"));
  EXPECT_TRUE(NameFilter("flux|flux-dev").takes_whole("flux-dev")) << "the longest alternative counts";
  EXPECT_TRUE(NameFilter("").takes_whole(""));
  EXPECT_FALSE(NameFilter("").takes_whole("anything"));
}

TEST(NameFilter, SaysWhatAFilterThatTakesNothingMayHaveMeant) {
  const std::vector<std::string> names = {"linear bf16 8x8", "gelu f32 8"};
  EXPECT_EQ(error_of([&] { NameFilter("liner").check_takes_any(names, "kernel benchmark"); }),
            "no kernel benchmark has a name that matches 'liner'; did you mean 'linear bf16 8x8'?");
  EXPECT_EQ(error_of([&] { NameFilter("softmax").check_takes_any(names, "kernel benchmark"); }),
            "no kernel benchmark has a name that matches 'softmax'");
  EXPECT_EQ(error_of([&] { NameFilter("gelu").check_takes_any(names, "kernel benchmark"); }), "(no error)");
}

TEST(NameFilter, RefusesWhatIsNoExpression) { EXPECT_THROW(NameFilter("("), Error); }

}  // namespace
}  // namespace headroom
