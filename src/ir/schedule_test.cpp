#include "ir/schedule.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ir/builder.hpp"
#include "ir/text/text.hpp"

namespace headroom {
namespace {

using testing::ElementsAre;

ScheduleItem node(std::size_t index) { return {.region = kNoRegion, .node = index}; }
ScheduleItem nested(RegionId region) { return {.region = region, .node = 0}; }

TEST(Schedule, GroupsRegionsAndPutsEmptyOnesLast) {
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

  const Schedule schedule(graph);
  EXPECT_THAT(schedule.items(kTopRegion), ElementsAre(node(0), nested(outer_region), node(4), nested(empty)));
  EXPECT_THAT(schedule.items(outer_region), ElementsAre(nested(inner_region), node(3)));
  EXPECT_THAT(schedule.items(inner_region), ElementsAre(node(1), node(2)));
  EXPECT_TRUE(schedule.items(empty).empty());
}

TEST(Schedule, PutsARegionWithoutNodesBeforeWhatReadsItsResults) {
  const Graph graph = parse_graph(R"(graph g {
      input %hit: bool[]
      input %x: f32[2]
      input %y: f32[2]
      %1: f32[2] = relu(%x)
      if %hit { yield %2: f32[2] = %x else %y }
      if %hit { yield %3: f32[2] = %2 else %1 }
      loop 2 %step {
        if %hit {} else {
          %5: f32[2] = relu(%3)
        }
      }
      output y = %1
    })");
  const Schedule schedule(graph);
  EXPECT_THAT(schedule.items(kTopRegion), ElementsAre(node(0), nested(1), nested(2), nested(3)));
  EXPECT_THAT(schedule.items(3), ElementsAre(nested(4)));
  EXPECT_TRUE(schedule.items(4).empty());
  EXPECT_THAT(schedule.items(5), ElementsAre(node(1)));
}

TEST(Schedule, PutsARegionWithoutNodesBeforeWhatUpdatesAStateThatItReads) {
  const Graph graph = parse_graph(R"(graph g {
      input %hit: bool[]
      input %x: f32[2]
      state %s: f32[2]
      state %t: f32[2]
      state %u: f32[2]
      loop 2 %i { next %u = %t }
      if %hit { next %t = %s } else {}
      loop 2 %step {
        %1: f32[2] = relu(%s)
        next %s = %1
      }
      output s = %s
    })");
  EXPECT_THAT(Schedule(graph).items(kTopRegion), ElementsAre(nested(1), nested(2), nested(4)));
}

}  // namespace
}  // namespace headroom
