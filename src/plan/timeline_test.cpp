#include "plan/timeline.hpp"

#include <gtest/gtest.h>

#include <string>

#include "ir/text/text.hpp"
#include "kernels/core/kernel.hpp"

namespace headroom {
namespace {

/// One letter per moment: a node by the first letter of its op, regions by brackets, a missing else by a dash.
std::string letters(const Graph& graph, const Timeline& timeline) {
  std::string text;
  for (const Moment& moment : timeline.moments()) {
    const bool is_loop = graph.region(moment.region).kind == RegionKind::kLoop;
    switch (moment.kind) {
      case Moment::Kind::kNode:
        text += name_of(graph.nodes()[static_cast<std::size_t>(moment.node)].op).front();
        break;
      case Moment::Kind::kBegin:
        text += is_loop ? '[' : '(';
        break;
      case Moment::Kind::kEnd:
        text += is_loop ? ']' : ')';
        break;
      case Moment::Kind::kOtherwise:
        text += '-';
        break;
    }
  }
  return text;
}

TEST(NeededUntil, AReadInALoopOfWhatWasMadeBeforeItLastsUntilTheLoopEnds) {
  const std::vector<Lifetime> loops = {{2, 9}, {4, 6}};
  EXPECT_EQ(needed_until(loops, 0, 1), 1);
  EXPECT_EQ(needed_until(loops, 0, 3), 9);
  EXPECT_EQ(needed_until(loops, 0, 5), 9) << "of the outer of two loops";
  EXPECT_EQ(needed_until(loops, 3, 5), 6) << "made in the outer loop, read in the inner";
  EXPECT_EQ(needed_until(loops, 4, 5), 5) << "made in the loop's first moment";
  EXPECT_EQ(needed_until(loops, 5, 8), 8) << "made in the inner loop, read after it";
  EXPECT_EQ(needed_until(loops, 5, 11), 11);
}

TEST(Timeline, HoldsNodesAndRegionsInOrder) {
  const Graph graph = parse_graph(R"(graph g {
    input %x: f32[4]
    input %hit: bool[]
    state %s: f32[4]
    %1: f32[4] = silu(%x)
    loop 3 %i {
      if %hit {
        %2: f32[4] = relu(%1)
        yield %3: f32[4] = %2 else %x
      }
      %4: f32[4] = add(%s, %3)
      next %s = %4
    }
    if %hit {
      yield %5: f32[4] = %1
    } else {
      %6: f32[4] = mul(%1, %x)
      yield %5 = %6
    }
    output y = %5
  })");
  std::vector<ChosenKernel> chosen;
  for (int i = 0; i < static_cast<int>(graph.nodes().size()); ++i)
    chosen.push_back({.node = i, .spec = {}, .rejections = {}});
  const Timeline timeline(graph, chosen);
  EXPECT_EQ(letters(graph, timeline), "(s[(r)-a]()(m))");
  EXPECT_EQ(timeline.of_node(2), 7);
  EXPECT_EQ(timeline.begin(1), 2);
  EXPECT_EQ(timeline.end(1), 8);
  EXPECT_EQ(timeline.needed_until(1, 4), 8);
  EXPECT_EQ(timeline.straight_run(0), 1);
  EXPECT_NE(timeline.straight_run(1), timeline.straight_run(2));
}

}  // namespace
}  // namespace headroom
