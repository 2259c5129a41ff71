#include "plan/lifetime.hpp"

#include <gtest/gtest.h>

namespace headroom {
namespace {

TEST(Lifetime, AReadInALoopOfWhatWasMadeBeforeItLastsUntilTheLoopEnds) {
  const Loops loops(12, {{2, 9}, {4, 6}});
  EXPECT_EQ(loops.needed_until(0, 1), 1);
  EXPECT_EQ(loops.needed_until(0, 3), 9);
  EXPECT_EQ(loops.needed_until(0, 5), 9) << "of the outer of two loops";
  EXPECT_EQ(loops.needed_until(3, 5), 6) << "made in the outer loop, read in the inner";
  EXPECT_EQ(loops.needed_until(4, 5), 5) << "made in the loop's first moment";
  EXPECT_EQ(loops.needed_until(5, 8), 8) << "made in the inner loop, read after it";
  EXPECT_EQ(loops.needed_until(5, 11), 11);
}

}  // namespace
}  // namespace headroom
