#include "ir/schedule.hpp"

#include <gtest/gtest.h>

#include "ir/builder.hpp"

namespace headroom {
namespace {

void expect_item(const ScheduleItem& item, RegionId loop, std::size_t begin, std::size_t end) {
  EXPECT_EQ(item.loop, loop);
  EXPECT_EQ(item.begin, begin);
  EXPECT_EQ(item.end, end);
}

TEST(Schedule, GroupsLoopsAndPutsEmptyOnesLast) {
  Graph graph;
  Builder b(graph);
  const ValueId x = graph.add_input("x", {DType::kF32, Shape{2}});
  const RegionId empty = graph.add_loop(kTopRegion, 2, "empty");
  b.relu(x);
  const auto outer = b.loop(2, "outer");
  const RegionId outer_region = b.region();
  RegionId inner_region = 0;
  {
    const auto inner = b.loop(2, "inner");
    inner_region = b.region();
    b.relu(x);
    b.relu(x);
  }
  b.relu(x);
  b.set_region(kTopRegion);
  b.relu(x);

  const auto top = schedule_of(graph);
  ASSERT_EQ(top.size(), 4U);
  expect_item(top[0], -1, 0, 1);
  expect_item(top[1], outer_region, 1, 4);
  expect_item(top[2], -1, 4, 5);
  expect_item(top[3], empty, 5, 5);

  const auto nested = schedule_of(graph, outer_region, 1, 4);
  ASSERT_EQ(nested.size(), 2U);
  expect_item(nested[0], inner_region, 1, 3);
  expect_item(nested[1], -1, 3, 4);

  EXPECT_TRUE(is_within(graph, inner_region, outer_region));
  EXPECT_TRUE(is_within(graph, inner_region, kTopRegion));
  EXPECT_TRUE(is_within(graph, outer_region, outer_region));
  EXPECT_FALSE(is_within(graph, outer_region, inner_region));
  EXPECT_FALSE(is_within(graph, outer_region, empty));
}

}  // namespace
}  // namespace headroom
