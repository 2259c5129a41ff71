#include <gtest/gtest.h>

#include "kernels/core/cuda/or_cannot_prepare.hpp"

namespace headroom::cuda {
namespace {

TEST(OrCannotPrepare, LeavesToOthersWhatIsRefusedAndToCallersThatMemoryIsShort) {
  EXPECT_EQ(or_cannot_prepare([] { return 7; }), 7);
  EXPECT_THROW(or_cannot_prepare([] { throw OutOfMemory("no room"); }), OutOfMemory);
  try {
    or_cannot_prepare([] { fail("no engine for {}", 7); });
    ADD_FAILURE() << "an Error was lost";
  } catch (const CannotPrepare& error) {
    EXPECT_STREQ(error.what(), "no engine for 7");
  }
}

}  // namespace
}  // namespace headroom::cuda
