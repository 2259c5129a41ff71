#include <algorithm>

#include "kernels/highway_check.hpp"

namespace headroom {
namespace {

TEST(SimdTargets, TheScalarOneIsAlwaysThereAndForcingIsSeenByDispatch) {
  std::vector<std::string> names;
  for_each_highway_target([&] { names.push_back(highway_target_name()); });
  EXPECT_THAT(names, testing::Contains("highway:scalar"));
  EXPECT_EQ(names.front(), highway_target_name()) << "best first";
  EXPECT_EQ(std::ranges::count(names, names.front()), 1);
}

}  // namespace
}  // namespace headroom
