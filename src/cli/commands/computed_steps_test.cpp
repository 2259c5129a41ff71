#include "cli/commands/computed_steps.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace headroom {
namespace {

TEST(ComputedSteps, AreReportedOncePerPattern) {
  const std::vector<ComputedSteps> one = {{true, false, true}};
  EXPECT_EQ(tell_computed_steps(one), "computed 2 of 3 steps: #.#\n");
  EXPECT_EQ(numbers_of(one).dump(), "[[0,2]]");
  const std::vector<ComputedSteps> several = {{true, false}, {true, true}, {true, true}};
  EXPECT_EQ(tell_computed_steps(several),
            "computed 2 of 2 steps: ## in 2 generations\ncomputed 1 of 2 steps: #. in 1 generation\n");
  EXPECT_EQ(numbers_of(several).dump(), "[[0],[0,1],[0,1]]");
  EXPECT_EQ(tell_computed_steps({}), "");
}

}  // namespace
}  // namespace headroom
