#include "plan/region_ends.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "ir/text/text.hpp"
#include "ir/verify.hpp"
#include "plan/plan.hpp"
#include "plan/test_util.hpp"

namespace headroom {
namespace {

Program plan_body(const std::string& body, bool arena = true) {
  const Graph graph = parse_graph(R"(graph g {
    input %x: f32[4, 4]
    input %hit: bool[]
    param %w: f32[4, 4]
    state %s: f32[4, 4]
    state %t: f32[4, 4]
    state %cube: f32[3, 3, 4]
    )" + body + "\n}\n");
  verify(graph);
  return plan(graph, Target{.cpu_isa = CpuIsa::kAvx2, .threads = 1}, {.arena = arena});
}

int copies_in(const Program& program) {
  return static_cast<int>(std::ranges::count(program.steps, nullptr, &Step::kernel));
}

const Step& step_of(const Program& program, Op op) {
  const auto found =
      std::ranges::find_if(program.steps, [&](const Step& step) { return step.kernel != nullptr && step.op == op; });
  HR_CHECK(found != program.steps.end());
  return *found;
}

StorageKind kind_of(const Program& program, const Place& place) {
  return program.storages[static_cast<std::size_t>(place.storage)].kind;
}

TEST(RegionEnds, WhatALoopReturnsOfAStateLiesInTheState) {
  const char* const body = R"(
    loop 3 %i {
      %1: f32[4, 4] = add(%s, %x)
      next %s = %1
    }
    %2: f32[4, 4] = relu(%s)
    output y = %2)";
  for (const bool arena : {false, true}) {
    const Program program = plan_body(body, arena);
    EXPECT_EQ(copies_in(program), arena ? 0 : 1);
    EXPECT_EQ(kind_of(program, step_of(program, Op::kRelu).input_places[0]), StorageKind::kState);
  }
}

TEST(RegionEnds, WhatALoopReturnsOfItsNodesLiesWhereTheyWriteIt) {
  const Program program = plan_body(R"(
    loop 3 %i {
      %1: f32[4, 4] = silu(%x)
      yield %2: f32[4, 4] = %1
    }
    %3: f32[4, 4] = relu(%2)
    output y = %3)");
  EXPECT_EQ(copies_in(program), 0);
  EXPECT_EQ(step_of(program, Op::kRelu).input_places[0], step_of(program, Op::kSilu).output_places[0]);
}

TEST(RegionEnds, BothBranchesWriteWhatAnIfReturns) {
  const Program program = plan_body(R"(
    if %hit {
      %1: f32[4, 4] = silu(%x)
      yield %2: f32[4, 4] = %1
    } else {
      %3: f32[4, 4] = relu(%x)
      yield %2 = %3
    }
    output y = %2)");
  EXPECT_EQ(copies_in(program), 0);
  EXPECT_EQ(step_of(program, Op::kRelu).output_places[0], program.outputs[0]);
  EXPECT_EQ(step_of(program, Op::kSilu).output_places[0], program.outputs[0]);
  ASSERT_EQ(program.root.children.size(), 1U);
  const Segment& branches = program.root.children[0];
  EXPECT_EQ(branches.kind, SegmentKind::kIf);
  EXPECT_EQ(kind_of(program, branches.predicate), StorageKind::kInput);
  ASSERT_EQ(branches.children.size(), 2U);
  EXPECT_EQ(branches.children[0].last, branches.children[1].first);
}

TEST(RegionEnds, WhatComesFromOutsideIsCopiedWhereTheBranchDidNotRun) {
  const Program program = plan_body(R"(
    if %hit {
      %1: f32[4, 4] = silu(%x)
      yield %2: f32[4, 4] = %1 else %w
    }
    output y = %2)");
  EXPECT_EQ(copies_in(program), 1);
  const Segment& otherwise = program.root.children[0].children[1];
  ASSERT_EQ(otherwise.last - otherwise.first, 1);
  const Step& copy = program.steps[static_cast<std::size_t>(otherwise.first)];
  EXPECT_EQ(kind_of(program, copy.input_places[0]), StorageKind::kWeight);
  EXPECT_EQ(copy.output_places[0], program.outputs[0]);
}

TEST(RegionEnds, AStateIsWrittenInPlaceWhereTheOtherBranchReadsIt) {
  const Program program = plan_body(R"(
    if %hit {
      %1: f32[4, 4] = silu(%x)
      next %s = %1
      yield %2: f32[4, 4] = %1
    } else {
      yield %2 = %s
    }
    %3: f32[4, 4] = relu(%2)
    output y = %3)");
  EXPECT_EQ(copies_in(program), 0);
  EXPECT_EQ(kind_of(program, step_of(program, Op::kSilu).output_places[0]), StorageKind::kState);
  EXPECT_EQ(kind_of(program, step_of(program, Op::kRelu).input_places[0]), StorageKind::kState);
}

TEST(RegionEnds, SwappedStatesGoThroughASpareStorage) {
  const Program program = plan_body(R"(
    next %s = %t
    next %t = %s)");
  ASSERT_EQ(copies_in(program), 3);
  EXPECT_EQ(kind_of(program, program.steps[0].output_places[0]), StorageKind::kArena);
  EXPECT_EQ(program.steps[2].input_places[0].storage, program.steps[0].output_places[0].storage);
  EXPECT_EQ(program.arena_bytes, 256U);
}

TEST(RegionEnds, ALoopWithoutStepsIsLeftOut) {
  const Program program = plan_body(R"(
    %1: f32[4, 4] = silu(%x)
    loop 3 %i {
      next %s = %s
      yield %2: f32[4, 4] = %1
    }
    %3: f32[4, 4] = relu(%2)
    output y = %3)");
  EXPECT_EQ(program.steps.size(), 2U);
  EXPECT_TRUE(program.root.children.empty());
}

TEST(RegionEnds, ANextValueThatReadsItsStateTransposedIsCopied) {
  const Program program = plan_body(R"(
    %1: f32[3, 3, 4] = transpose(%cube) {perm = [1, 0, 2]}
    %2: f32[3, 3, 4] = add(%cube, %1)
    next %cube = %2)");
  ASSERT_EQ(step_of(program, Op::kAdd).input_places[1].storage, step_of(program, Op::kAdd).input_places[0].storage);
  EXPECT_EQ(kind_of(program, step_of(program, Op::kAdd).output_places[0]), StorageKind::kArena);
  EXPECT_EQ(copies_in(program), 1);
}

TEST(RegionEnds, CopiesArePrinted) {
  const std::string text = to_text(plan_body(R"(
    if %hit {
      next %s = %t
    } else {
      next %s = %x
    }
    output w = %w)"),
                                   false);
  for (const char* line : {"if:\n", "else:\n", "0  copy  copy    f32[4, 4]  state.s\n", "f32[4, 4]  output.w\n"})
    EXPECT_NE(text.find(line), std::string::npos) << line << "\n" << text;
}

/// An optimizer's update makes a weight and its moments: each state is written in place, if the kernel allows it.
TEST(RegionEnds, EveryResultMayBeWrittenOverItsState) {
  for (const bool in_place : {false, true}) {
    const OverInputs kernel(in_place ? std::set<std::pair<int, int>>{{0, 0}, {1, 1}} : std::set<std::pair<int, int>>{});
    const Kernel* const kernels[] = {&kernel};
    const Graph graph = parse_graph(R"(graph g {
      input %x: f32[4, 4]
      state %s: f32[4, 4]
      state %t: f32[4, 4]
      %1: f32[4, 4], %2: f32[4, 4] = fused(%s, %t, %x) {body = graph two {
        input %a: f32[4, 4]
        input %b: f32[4, 4]
        input %c: f32[4, 4]
        %0: f32[4, 4] = add(%a, %c)
        %1: f32[4, 4] = mul(%b, %c)
        output y0 = %0
        output y1 = %1
      }}
      next %s = %1
      next %t = %2
    })");
    verify(graph);
    const Program program = plan(graph, Target{.cpu_isa = CpuIsa::kAvx2, .threads = 1}, {.arena = true}, kernels);
    EXPECT_EQ(copies_in(program), in_place ? 0 : 2);
    for (const Place& place : step_of(program, Op::kFused).output_places)
      EXPECT_EQ(kind_of(program, place), in_place ? StorageKind::kState : StorageKind::kArena);
  }
}

/// The contents of each storage after the copies, if each held its own number before.
std::map<int, int> run(const std::vector<StorageCopy>& copies) {
  std::map<int, int> held;
  const auto content = [&](int storage) { return held.contains(storage) ? held[storage] : storage; };
  for (const StorageCopy& copy : copies) held[copy.to] = content(copy.from);
  return held;
}

TEST(Copies, EachReadsWhatWasThereBeforeAll) {
  const std::vector<StorageCopy> chain = {{1, 2, 0}, {2, 3, 1}, {0, 1, 2}};
  EXPECT_EQ(run(in_order(chain, 9)), (std::map<int, int>{{0, 1}, {1, 2}, {2, 3}}));
  EXPECT_EQ(in_order(chain, 9).size(), 3U);
}

TEST(Copies, ACircleGoesThroughASpareStorage) {
  const std::vector<StorageCopy> swap = {{1, 2, 0}, {2, 1, 1}};
  EXPECT_EQ(in_order(swap, 9), (std::vector<StorageCopy>{{9, 2, 0}, {2, 1, 1}, {1, 9, 0}}));
  std::vector<StorageCopy> two = {{1, 2, 0}, {2, 3, 1}, {3, 1, 2}, {4, 5, 3}, {5, 4, 4}, {6, 5, 5}};
  std::map<int, int> held = run(in_order(two, 9));
  for (const StorageCopy& copy : two) EXPECT_EQ(held[copy.to], copy.from);
  EXPECT_TRUE(held.contains(10)) << "two circles, two spare storages";
}

}  // namespace
}  // namespace headroom
