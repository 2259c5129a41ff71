#include "base/name_filter.hpp"

#include <gtest/gtest.h>

#include "base/error.hpp"

namespace headroom {
namespace {

TEST(NameFilter, TakesWhatMatchesSomewhere) {
  const NameFilter filter("^linear|bf16$");
  EXPECT_TRUE(filter.takes("linear f32 8x8"));
  EXPECT_TRUE(filter.takes("gelu bf16"));
  EXPECT_FALSE(filter.takes("scaled_linear i8"));
  EXPECT_TRUE(NameFilter("").takes("anything"));
}

TEST(NameFilter, RefusesWhatIsNoExpression) { EXPECT_THROW(NameFilter("("), Error); }

}  // namespace
}  // namespace headroom
