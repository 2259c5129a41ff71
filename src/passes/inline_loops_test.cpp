#include "passes/test_util.hpp"

namespace headroom {
namespace {

TEST(InlineLoops, MakesALoopThatRunsOnceAStraightLine) {
  expect_rewrite("inline-loops", R"(graph g {
      input %times: f32[3, 2]
      input %a: f32[2]
      state %s: f32[2]
      %1: f32[2] = silu(%a)
    - loop 1 %i {
    -   %2: f32[2] = row(%times, %i)
    + %7: f32[1, 2] = slice(%times) {axis = 0, start = 0, size = 1}
    + %2: f32[2] = reshape(%7) {shape = [2]}
        %3: f32[2] = mul(%2, %1)
        %4: f32[2] = add(%s, %3)
    -   next %s = %4
    -   yield %5: f32[2] = %4
    - }
    - %6: f32[2] = relu(%5)
    + %6: f32[2] = relu(%4)
    + next %s = %4
      output y = %6
      output s = %s
    })");
}

TEST(InlineLoops, TakesTheOnlyRowOfATableAsItIs) {
  expect_rewrite("inline-loops", R"(graph g {
      input %times: f32[1]
      state %s: f32[2]
    - loop 1 %i {
    -   %1: f32[] = row(%times, %i)
    + %1: f32[] = reshape(%times) {shape = []}
        %2: f32[2] = add(%s, %1)
        next %s = %2
    - }
    })");
}

TEST(InlineLoops, CountsWithAZeroWhereTheCounterIsReadOtherwise) {
  expect_rewrite("inline-loops", R"(graph g {
      input %first: i32[]
      input %a: f32[2]
      state %s: f32[2]
      state %last: i32[]
    - loop 1 %i {
    + %3: i32[] = constant() {values = [0], dtype = i32}
    -   %1: bool[] = equal(%i, %first)
    + %1: bool[] = equal(%3, %first)
        %2: f32[2] = select(%1, %a, %s)
        next %s = %2
    -   next %last = %i
    + next %last = %3
    -   yield %3: i32[] = %i
    - }
      output turn = %3
    })");
}

/// The outer loop's body becomes that of the inner ones, whose states then change between its iterations. Later
/// regions are renumbered.
TEST(InlineLoops, FindsLoopsInLoopsAndBranches) {
  expect_rewrite("inline-loops", R"(graph g {
      input %x: f32[2]
      input %hit: bool[]
      state %s: f32[2]
      state %t: f32[2]
      loop 3 %i {
    -   loop 1 %j {
    -     loop 1 %k {
            %1: f32[2] = add(%s, %x)
            next %s = %1
    -     }
    -   }
        if %hit {
    -     loop 1 %l {
            %2: f32[2] = mul(%t, %x)
            next %t = %2
    -     }
        }
      }
      output s = %s
      output t = %t
    })",
                 3);
}

TEST(InlineLoops, LeavesLoopsNextToRegionsThatGiveResults) {
  expect_unchanged("inline-loops", R"(graph g {
      input %x: f32[2]
      input %hit: bool[]
      state %s: f32[2]
      state %t: f32[2]
      loop 3 %i {
        loop 1 %j {
          loop 1 %k {
            %1: f32[2] = add(%s, %x)
            next %s = %1
            yield %2: f32[2] = %1
          }
          yield %3: f32[2] = %2
        }
        if %hit {
          loop 1 %l {
            %4: f32[2] = mul(%t, %3)
            next %t = %4
          }
          yield %6: f32[2] = %3
        } else {
          %5: f32[2] = add(%t, %3)
          yield %6 = %5
        }
        yield %7: f32[2] = %6
      }
      output y = %7
    })");
}

TEST(InlineLoops, StatesStillSwap) {
  expect_rewrite("inline-loops", R"(graph g {
      state %s: f32[2]
      state %t: f32[2]
    - loop 1 %i {
    + %2: f32[2] = relu(%s)
        next %s = %t
        next %t = %s
    -   yield %1: f32[2] = %s
    - }
    - %2: f32[2] = relu(%1)
      output y = %2
      output s = %s
    })");
}

TEST(InlineLoops, LeavesWhatRunsAgainAndBranches) {
  expect_unchanged("inline-loops", R"(graph g {
      input %x: f32[2]
      input %hit: bool[]
      state %s: f32[2]
      loop 2 %i {
        %1: f32[2] = add(%s, %x)
        next %s = %1
      }
      if %hit {
        %2: f32[2] = relu(%x)
        yield %3: f32[2] = %2 else %x
      }
      output y = %3
    })");
}

/// Another loop, or the end of the program, changes the state afterwards.
TEST(InlineLoops, LeavesALoopWhoseEndReadsAStateThatChangesLater) {
  expect_unchanged("inline-loops", R"(graph g {
      input %x: f32[2]
      state %s: f32[2]
      state %t: f32[2]
      loop 1 %i {
        %1: f32[2] = add(%t, %x)
        next %t = %s
        yield %2: f32[2] = %1
      }
      loop 2 %j {
        %3: f32[2] = add(%s, %2)
        next %s = %3
      }
      output t = %t
    })");
  expect_unchanged("inline-loops", R"(graph g {
      input %x: f32[2]
      state %s: f32[2]
      loop 1 %i {
        %1: f32[2] = relu(%x)
        yield %2: f32[2] = %s
        yield %3: f32[2] = %1
      }
      loop 2 %j {
        %4: f32[2] = add(%s, %3)
        next %s = %4
      }
      %5: f32[2] = add(%2, %x)
      output y = %5
    })");
}

TEST(InlineLoops, LeavesALoopWhoseOutputIsAStateAsItWas) {
  expect_unchanged("inline-loops", R"(graph g {
      input %x: f32[2]
      state %s: f32[2]
      loop 1 %i {
        %1: f32[2] = add(%s, %x)
        next %s = %1
        yield %2: f32[2] = %s
      }
      output before = %2
    })");
}

}  // namespace
}  // namespace headroom
