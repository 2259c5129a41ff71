#include "base/text/list.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/test_util.hpp"

namespace headroom {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(List, TakesBlanksAroundItems) {
  EXPECT_THAT(split_list("flash, fuse", "--opt"), ElementsAre("flash", "fuse"));
  EXPECT_THAT(split_list("  512 ,\t1024 ", "--resolution"), ElementsAre("512", "1024"));
  EXPECT_THAT(split_list("one", "--opt"), ElementsAre("one"));
  EXPECT_THAT(split_list("Ankle boot,Bag", "--labels"), ElementsAre("Ankle boot", "Bag")) << "those within stay";
  EXPECT_THAT(split_list("", "--opt"), IsEmpty());
  EXPECT_THAT(split_list("  ", "--opt"), IsEmpty());
}

TEST(List, SaysWhichItemIsEmpty) {
  EXPECT_EQ(error_of([] { (void)split_list("4,,10", "--steps"); }), "--steps: item 2 of '4,,10' is empty");
  EXPECT_EQ(error_of([] { (void)split_list("4, ", "--steps"); }), "--steps: item 2 of '4, ' is empty");
  EXPECT_EQ(error_of([] { (void)split_list(" ,4", "--steps"); }), "--steps: item 1 of ' ,4' is empty");
  EXPECT_EQ(error_of([] { (void)split_list(",", "--steps"); }), "--steps: item 1 of ',' is empty");
}

}  // namespace
}  // namespace headroom
