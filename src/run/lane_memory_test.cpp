// What spreading the U-Net of Stable Diffusion XL over two lanes costs in memory: its keys and values of the text need
// nothing of the image, so that their lane would run far ahead of the other one.

#include <gtest/gtest.h>

#include "plan/lanes.hpp"
#include "plan/memory.hpp"
#include "plan/plan.hpp"
#include "run/forward_pass.hpp"

namespace headroom {
namespace {

TEST(LaneMemory, OfTheUNetOfSdxlIsLittleMoreThanThatOfOneLane) {
  const Component unet = open_component("sdxl-unet", 0);
  const ForwardPass pass =
      make_forward_pass(unet, pass_named(*unet.kind, "forward"), {.batch = 2, .height = 1024, .width = 1024});
  const Target target{.cpu_isa = CpuIsa::kAvx2, .threads = 1};
  const Compiled one = compile(pass, SwitchSet::parse("arena,flash,fuse,channels-last"), target);
  const auto bound_of_one = static_cast<double>(one.program->arena_lower_bound_bytes);

  Program two = plan(one.program->graph, target, {.arena = true, .lanes = 2});
  EXPECT_EQ(two.lanes, 2);
  EXPECT_LE(static_cast<double>(two.arena_lower_bound_bytes), kMostLaneMemory * bound_of_one);
  EXPECT_LE(static_cast<double>(two.arena_bytes), 1.1 * static_cast<double>(two.arena_lower_bound_bytes));

  for (Storage& storage : two.storages) storage.first = storage.last = 0;
  assign_lanes(two, 2);  // without a window
  find_lifetimes(two);
  EXPECT_GT(static_cast<double>(arena_lower_bound(two)), 2 * bound_of_one) << "which is why there is one";
}

}  // namespace
}  // namespace headroom
