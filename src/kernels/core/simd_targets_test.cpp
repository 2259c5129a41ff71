#include <algorithm>

#include "testing/highway_check.hpp"

namespace headroom {
namespace {

TEST(SimdTargets, TheScalarOneIsAlwaysThereAndForcingIsSeenByDispatch) {
  std::vector<std::string> names;
  for_each_highway_target([&] { names.push_back(highway_target_name()); });
  EXPECT_THAT(names, testing::Contains("highway:scalar"));
  EXPECT_EQ(names.front(), highway_target_name()) << "best first";
  EXPECT_EQ(std::ranges::count(names, names.front()), 1);
}

#if HWY_ARCH_X86
TEST(SimdTargets, AskingForTheNameLeavesDispatchAsItIs) {
  const bool has_bf16 = __builtin_cpu_supports("avx512bf16") != 0;
  hwy::DisableTargets(HWY_AVX3_DL | HWY_AVX3 | HWY_AVX2);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  const std::size_t limited = hwy::GetChosenTarget().GetIndex();
  const std::string name = highway_target_name();
  const std::size_t after = hwy::GetChosenTarget().GetIndex();
  hwy::DisableTargets(has_bf16 ? 0 : HWY_AVX3_DL);  // as the program begins
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  EXPECT_EQ(name, "highway:scalar");
  EXPECT_EQ(after, limited);
}
#endif

}  // namespace
}  // namespace headroom
