#include "base/error.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>
#include <string>

namespace headroom {
namespace {

using testing::HasSubstr;

TEST(ErrorTest, FailFormatsAndMeansExitCodeOne) {
  try {
    fail("{} has {} axes, expected {}", "weights.bin", 3, 2);
    FAIL() << "did not throw";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "weights.bin has 3 axes, expected 2");
    EXPECT_EQ(error.code(), ExitCode::kError);
    EXPECT_EQ(static_cast<int>(error.code()), 1);
  }
}

TEST(ErrorTest, FailUsageMeansExitCodeTwo) {
  try {
    fail_usage("--steps must be positive, but is {}", -1);
    FAIL() << "did not throw";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "--steps must be positive, but is -1");
    EXPECT_EQ(static_cast<int>(error.code()), 2);
  }
}

TEST(CheckTest, NamesPlaceConditionAndBothValues) {
  const int rank = 3;
  try {
    HR_CHECK_EQ(rank, 4);
    FAIL() << "did not throw";
  } catch (const std::logic_error& error) {
    EXPECT_THAT(error.what(), HasSubstr("error_test.cpp:"));
    EXPECT_THAT(error.what(), HasSubstr("rank == 4"));
    EXPECT_THAT(error.what(), HasSubstr("3 vs 4"));
  }
}

TEST(CheckTest, FailsOnlyWhereTheConditionDoes) {
  EXPECT_NO_THROW(HR_CHECK_LT(1, 2));
  EXPECT_THROW(HR_CHECK_LT(2, 2), std::logic_error);
  EXPECT_NO_THROW(HR_CHECK_LE(2, 2));
  EXPECT_THROW(HR_CHECK_LE(3, 2), std::logic_error);
  EXPECT_NO_THROW(HR_CHECK(true));
  EXPECT_THROW(HR_CHECK(1 + 1 == 3), std::logic_error);
}

TEST(CheckTest, EvaluatesItsOperandsOnce) {
  int evaluations = 0;
  HR_CHECK_EQ(++evaluations, 1);
  EXPECT_EQ(evaluations, 1);
}

TEST(CheckTest, IsNotAnErrorOfTheUser) {
  EXPECT_THROW(
      {
        try {
          HR_CHECK(false);
        } catch (const Error&) {
          FAIL() << "a broken invariant must not look like bad input";
        }
      },
      std::logic_error);
}

}  // namespace
}  // namespace headroom
