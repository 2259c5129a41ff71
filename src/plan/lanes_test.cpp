#include "plan/lanes.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <set>
#include <string>

#include "ir/text/text.hpp"
#include "plan/arena.hpp"
#include "plan/plan.hpp"

namespace headroom {
namespace {

Program plan_lanes(const char* text, int lanes) {
  return plan(parse_graph(text), Target{.cpu_isa = CpuIsa::kAvx2, .threads = 1}, {.arena = true, .lanes = lanes});
}

std::vector<int> lanes_of(const Program& program) {
  std::vector<int> lanes;
  for (const Step& step : program.steps) lanes.push_back(step.lane);
  return lanes;
}

/// Two chains that join, like text and image in a double block.
constexpr const char* kTwoChains = R"(graph chains {
  input %a: f32[1, 3, 8]
  input %b: f32[1, 5, 8]
  %2: f32[1, 3, 8] = silu(%a)
  %3: f32[1, 5, 8] = silu(%b)
  %4: f32[1, 3, 8] = relu(%2)
  %5: f32[1, 5, 8] = relu(%3)
  %6: f32[1, 8, 8] = concat(%4, %5) {axis = 1}
  %7: f32[1, 8, 8] = softmax(%6)
  %8: f32[1, 3, 8] = slice(%7) {axis = 1, start = 0, size = 3}
  %9: f32[1, 5, 8] = slice(%7) {axis = 1, start = 3, size = 5}
  %10: f32[1, 3, 8] = silu(%8)
  %11: f32[1, 5, 8] = silu(%9)
  output x = %10
  output y = %11
})";

TEST(Lanes, ChainsRunConcurrentlyAndMeet) {
  const Program program = plan_lanes(kTwoChains, 2);
  ASSERT_EQ(program.steps.size(), 7U);  // the concatenation and its slices are places
  EXPECT_EQ(program.lanes, 2);
  EXPECT_EQ(lanes_of(program), (std::vector{0, 1, 0, 1, 1, 1, 0}));
  EXPECT_EQ(program.steps[4].waits, std::vector{2});  // the softmax, for the part of the other chain
  EXPECT_EQ(program.steps[6].waits, std::vector{4});
  for (const int quiet : {0, 1, 2, 3, 5}) EXPECT_TRUE(program.steps[static_cast<std::size_t>(quiet)].waits.empty());
}

TEST(Lanes, OneLaneIsTheSchedule) {
  const Program program = plan_lanes(kTwoChains, 1);
  EXPECT_EQ(program.lanes, 1);
  EXPECT_EQ(lanes_of(program), std::vector<int>(7, 0));
  for (const Step& step : program.steps) EXPECT_TRUE(step.waits.empty());
}

TEST(Lanes, CollectivesKeepTheirOrder) {
  const Program program = plan_lanes(R"(graph ranks {
  input %a: f32[1, 3, 8]
  input %b: f32[1, 5, 8]
  %1: f32[1, 3, 8] = silu(%a)
  %2: f32[1, 3, 8] = all_reduce(%1) {group = [0, 1], rank = 0}
  %3: f32[1, 5, 8] = silu(%b)
  %4: f32[1, 5, 8] = all_reduce(%3) {group = [0, 1], rank = 0}
  output x = %2
  output y = %4
})",
                                     2);
  EXPECT_EQ(program.lanes, 2);
  const Step &first = program.steps[1], &second = program.steps[3];
  ASSERT_EQ(second.op, Op::kAllReduce);
  EXPECT_TRUE(first.lane == second.lane || std::ranges::count(second.waits, 1) == 1)
      << "independent of each other, but all ranks have them in this order";
}

TEST(Lanes, AChainOfStepsIsLeftAlone) {
  const Program program = plan_lanes(R"(graph chain {
    input %a: f32[1, 3, 8]
    %1: f32[1, 3, 8] = silu(%a)
    %2: f32[1, 3, 8] = relu(%1)
    %3: f32[1, 3, 8] = add(%2, %1)
    output x = %3
  })",
                                     4);
  EXPECT_EQ(program.lanes, 1);
}

TEST(Lanes, PartsOfABatchedConcatenationAreFoundDisjoint) {
  // Rows of both parts alternate in memory: only their strides show that they are disjoint.
  const Program program = plan_lanes(R"(graph parts {
    input %a: f32[2, 3, 8]
    input %b: f32[2, 5, 8]
    %2: f32[2, 3, 8] = silu(%a)
    %3: f32[2, 5, 8] = relu(%b)
    %4: f32[2, 8, 8] = concat(%2, %3) {axis = 1}
    %5: f32[2, 8, 8] = softmax(%4)
    output y = %5
  })",
                                     2);
  EXPECT_EQ(lanes_of(program), (std::vector{0, 1, 1}));
  EXPECT_TRUE(program.steps[1].waits.empty());
  EXPECT_EQ(program.steps[2].waits, std::vector{0});
}

TEST(Lanes, StepsOfALaneShareScratchThatOtherLanesWouldKeepApart) {
  Program program = plan_lanes(kTwoChains, 2);
  ASSERT_EQ(last_concurrent(program), (std::vector{3, 2, 3, 3, 4, 6, 6}));
  const auto bytes_of = [&](int step) {
    const int scratch = program.steps[static_cast<std::size_t>(step)].scratch;
    return program.storages[static_cast<std::size_t>(scratch)].bytes;
  };
  for (int i = 0; i < 7; ++i) {
    program.steps[static_cast<std::size_t>(i)].scratch = static_cast<int>(program.storages.size());
    program.storages.push_back({.kind = StorageKind::kScratch, .bytes = std::size_t(100) * (10 - i)});
  }
  share_scratch(program);
  EXPECT_EQ(program.steps[2].scratch, program.steps[0].scratch)
      << "step 3 of the other lane may run concurrently with both";
  EXPECT_EQ(bytes_of(0), 1000U);
  std::set<int> others;
  for (const int i : {0, 1, 3, 4, 5, 6}) others.insert(program.steps[static_cast<std::size_t>(i)].scratch);
  EXPECT_EQ(others.size(), 6U) << "nothing keeps these apart";
  for (const int i : {1, 3, 4, 5, 6}) EXPECT_EQ(bytes_of(i), 100U * static_cast<unsigned>(10 - i));
}

TEST(Lanes, MemoryIsNotReusedByConcurrentSteps) {
  // After its relu nothing needs %2 or %3; in one lane a result of the other chain may reuse their memory.
  const Program program = plan_lanes(kTwoChains, 2);
  const std::vector<int> until = last_concurrent(program);
  EXPECT_EQ(until, (std::vector{3, 2, 3, 3, 4, 6, 6}));
  for (const Storage& a : program.storages)
    for (const Storage& b : program.storages) {
      if (&a == &b || a.kind != StorageKind::kArena || b.kind != StorageKind::kArena) continue;
      const bool at_once = a.first <= b.last && b.first <= a.last;
      const bool apart = a.arena_offset + a.bytes <= b.arena_offset || b.arena_offset + b.bytes <= a.arena_offset;
      EXPECT_TRUE(apart || !at_once);
    }
}

/// Independent branches, each with a large value in its middle.
std::string branches(int count) {
  std::string text = "graph branches {\n  input %a: f32[1, 4096]\n", outputs;
  for (int i = 0; i < count; ++i) {
    text += fmt::format("  %{}: f32[1, 4096] = mul_scalar(%a) {{value = {}.5}}\n", 2 * i + 1, i);
    text += fmt::format("  %{}: f32[1] = sum(%{}) {{axes = [1]}}\n", 2 * i + 2, 2 * i + 1);
    outputs += fmt::format("  output sum{} = %{}\n", i, 2 * i + 2);
  }
  return text + outputs + "}";
}

TEST(Lanes, AWindowBoundsHowFarTheyRunApart) {
  for (const int window : {2, 3, 8}) {
    Program program = plan_lanes(branches(20).c_str(), 1);
    assign_lanes(program, 4, window);
    EXPECT_GT(program.lanes, 1) << window;
    const std::vector<int> until = last_concurrent(program);
    for (int i = 0; i < static_cast<int>(until.size()); ++i)
      EXPECT_LT(until[static_cast<std::size_t>(i)], i + window) << window;
  }
}

TEST(Lanes, TakeLittleMoreMemoryThanOne) {
  const Program one = plan_lanes(branches(20).c_str(), 1), four = plan_lanes(branches(20).c_str(), 4);
  Program unbounded = one;
  assign_lanes(unbounded, 4);
  find_lifetimes(unbounded);
  EXPECT_GT(static_cast<double>(arena_lower_bound(unbounded)),
            kMostLaneMemory * static_cast<double>(one.arena_lower_bound_bytes))
      << "else this test shows nothing";
  EXPECT_LE(static_cast<double>(four.arena_lower_bound_bytes),
            kMostLaneMemory * static_cast<double>(one.arena_lower_bound_bytes));
}

}  // namespace
}  // namespace headroom
