#include "passes/test_util.hpp"

namespace headroom {
namespace {

TEST(Hoist, MovesConstantsInFrontAndComputesAllStepsAtOnce) {
  expect_rewrite("hoist", R"(graph g {
      input %text: f32[2, 3]
      input %times: f32[4, 2]
      param %w: f32[6, 3]
      state %x: f32[2, 3]
    + %2: f32[2, 3] = relu(%text) @ text
    + %7: f32[4, 2] = silu(%times) @ time
      loop 4 %step {
    -   %1: f32[2] = row(%times, %step) @ sampler
    -   %2: f32[2, 3] = relu(%text) @ text
    -   %3: f32[2] = silu(%1) @ time
    +   %3: f32[2] = row(%7, %step) @ time
        %4: f32[2, 1] = reshape(%3) {shape = [2, 1]} @ time
        %5: f32[2, 3] = mul(%x, %4) @ block
        %6: f32[2, 3] = add(%5, %2) @ block
        next %x = %6
      }
      output x = %x
    })",
                 3);  // relu, silu, and the first row
}

TEST(Hoist, TakesOutOfBranchesWhatItTakesOutOfTheirLoop) {
  expect_rewrite("hoist", R"(graph g {
      input %text: f32[2, 3]
      input %times: f32[4, 2]
      input %hits: bool[4]
      state %x: f32[2, 3]
    + %3: f32[2, 3] = relu(%text) @ text
    + %10: f32[4, 2] = silu(%times) @ time
      loop 4 %step {
        %1: bool[] = row(%hits, %step)
        if %1 {
          %2: f32[2, 3] = relu(%x) @ hit
          yield %9: f32[2, 3] = %2
        } else {
    -     %3: f32[2, 3] = relu(%text) @ text
    -     %4: f32[2] = row(%times, %step) @ time
    -     %5: f32[2] = silu(%4) @ time
    +     %5: f32[2] = row(%10, %step) @ time
          %6: f32[2, 1] = reshape(%5) {shape = [2, 1]} @ time
          %7: f32[2, 3] = mul(%x, %6) @ block
          %8: f32[2, 3] = add(%7, %3) @ block
          yield %9 = %8
        }
        next %x = %9
      }
      output x = %x
    })",
                 3);
}

TEST(Hoist, LeavesABranchItsNodesWhereItWouldLoseAll) {
  expect_unchanged("hoist", R"(graph g {
      input %text: f32[2, 3]
      input %hits: bool[4]
      state %x: f32[2, 3]
      loop 4 %step {
        %1: bool[] = row(%hits, %step)
        if %1 {
          %2: f32[2, 3] = relu(%text) @ text
          yield %3: f32[2, 3] = %2 else %x
        }
        %4: f32[2, 3] = silu(%3) @ block
        next %x = %4
      }
      output x = %x
    })");
}

TEST(HoistScales, TakesWhatAGateWasPutIntoOutOfALoopThatReadsItsRow) {
  expect_rewrite("hoist-scales", R"(graph g {
      input %table: f32[3, 1, 8]
      param %w_scale: f32[4]
      state %x: f32[1, 5, 4]
    + %6: f32[3, 1, 4] = slice(%table) {axis = 2, start = 4, size = 4} @ norm
    + %7: f32[3, 4] = reshape(%6) {shape = [3, 4]} @ proj
    + %8: f32[3, 4] = mul(%w_scale, %7) @ proj
      loop 3 %step {
    -   %1: f32[1, 8] = row(%table, %step) @ norm.linear
    -   %2: f32[1, 4] = slice(%1) {axis = 1, start = 4, size = 4} @ norm
    -   %3: f32[4] = reshape(%2) {shape = [4]} @ proj
    -   %4: f32[4] = mul(%w_scale, %3) @ proj
    +   %4: f32[4] = row(%8, %step) @ proj
        %5: f32[1, 5, 4] = mul(%x, %4) @ proj
        next %x = %5
      }
    })",
                 4);
}

TEST(Hoist, LeavesTheChunksOfAModulationViewsOfOneRow) {
  expect_rewrite("hoist", R"(graph g {
      input %temb: f32[3, 2, 4]
      param %w: f32[8, 4]
      state %x: f32[2, 5, 4]
    + %8: f32[3, 2, 8] = linear(%temb, %w) @ norm.linear
      loop 3 %step {
    -   %1: f32[2, 4] = row(%temb, %step)
    -   %2: f32[2, 8] = linear(%1, %w) @ norm.linear
    +   %2: f32[2, 8] = row(%8, %step) @ norm.linear
        %3: f32[2, 4] = slice(%2) {axis = 1, start = 0, size = 4} @ norm
        %4: f32[2, 4] = slice(%2) {axis = 1, start = 4, size = 4} @ norm
        %5: f32[2, 1, 4] = reshape(%3) {shape = [2, 1, 4]} @ norm
        %6: f32[2, 1, 4] = reshape(%4) {shape = [2, 1, 4]} @ norm
        %7: f32[2, 5, 4] = norm_modulate(%x, %5, %6) {eps = 1e-06} @ norm
        next %x = %7
      }
    })",
                 2);
}

TEST(Hoist, LiftsAViewThatLeadsOn) {
  expect_rewrite("hoist", R"(graph g {
      input %table: f32[3, 4]
      state %x: f32[2]
    + %6: f32[3, 2] = slice(%table) {axis = 1, start = 2, size = 2}
    + %7: f32[3, 2] = add_scalar(%6) {value = 1}
      loop 3 %step {
        %1: f32[4] = row(%table, %step)
        %2: f32[2] = slice(%1) {axis = 0, start = 2, size = 2}
    -   %3: f32[2] = add_scalar(%2) {value = 1}
    +   %3: f32[2] = row(%7, %step)
        %4: f32[2] = mul(%x, %3)
        %5: f32[2] = add(%4, %2)
        next %x = %5
      }
    })");
}

TEST(Hoist, EndsAtTheFirstOpWithoutARule) {
  expect_rewrite("hoist", R"(graph g {
      input %table: f32[3, 2, 4]
      state %x: f32[2, 4]
    + %6: f32[3, 2, 4] = silu(%table)
      loop 3 %step {
    -   %1: f32[2, 4] = row(%table, %step)
    -   %2: f32[2, 4] = silu(%1)
    +   %2: f32[2, 4] = row(%6, %step)
        %3: f32[2, 4] = group_norm(%2) {groups = 1, eps = 1e-06}
        %4: f32[2, 4] = relu(%3)
        %5: f32[2, 4] = add(%x, %4)
        next %x = %5
      }
    })",
                 2);
}

TEST(Hoist, TakesTheRowsTheLoopReadsOfALongerTable) {
  expect_rewrite("hoist", R"(graph g {
      input %table: f32[9, 2]
      state %x: f32[2]
    + %4: f32[3, 2] = slice(%table) {axis = 0, start = 0, size = 3}
    + %5: f32[3, 2] = silu(%4)
      loop 3 %step {
    -   %1: f32[2] = row(%table, %step)
    -   %2: f32[2] = silu(%1)
    +   %2: f32[2] = row(%5, %step)
        %3: f32[2] = add(%x, %2)
        next %x = %3
      }
    })",
                 2);
}

TEST(Hoist, GoesOnOutOfTheLoopAround) {
  expect_rewrite("hoist", R"(graph g {
      input %a: f32[2]
      input %b: f32[3, 2]
      state %x: f32[2]
    + %1: f32[2] = silu(%a)
    + %6: f32[3, 2] = relu(%b)
    + %7: f32[3, 2] = mul(%1, %6)
      loop 3 %outer {
    +   %4: f32[2] = row(%7, %outer)
        loop 4 %inner {
    -     %1: f32[2] = silu(%a)
    -     %2: f32[2] = row(%b, %outer)
    -     %3: f32[2] = relu(%2)
    -     %4: f32[2] = mul(%1, %3)
          %5: f32[2] = add(%x, %4)
          next %x = %5
        }
      }
    })",
                 8);  // four out of the inner loop; out of the outer one silu, the row, relu and mul
}

TEST(Hoist, TakesAStateForAConstantWhereTheLoopDoesNotChangeIt) {
  expect_rewrite("hoist", R"(graph g {
      state %cache: f32[2]
      state %x: f32[2]
    + %1: f32[2] = silu(%cache)
      loop 3 %step {
    -   %1: f32[2] = silu(%cache)
        %2: f32[2] = add(%x, %1)
        next %x = %2
      }
      %3: f32[2] = relu(%x)
      next %cache = %3
    })");
}

TEST(Hoist, LeavesALoopThatWouldHoldNothing) {
  expect_unchanged("hoist", R"(graph g {
      input %a: f32[2]
      state %x: f32[2]
      loop 3 %step {
        %1: f32[2] = silu(%a)
        next %x = %1
      }
      %2: f32[2] = relu(%x)
      output y = %2
    })");
}

TEST(Hoist, LeavesTheCounterItselfAndRowsByOtherIndices) {
  expect_unchanged("hoist", R"(graph g {
      input %table: f32[3, 2]
      state %index: i32[]
      state %x: f32[2]
      loop 3 %step {
        %1: f32[2] = row(%table, %index)
        %2: f32[2] = silu(%1)
        %3: f32[] = cast(%step) {dtype = f32}
        %4: f32[2] = mul(%2, %3)
        %5: f32[2] = add(%x, %4)
        %6: i32[] = cast(%step) {dtype = i32}
        next %x = %5
        next %index = %6
      }
    })");
}

std::string why_declined(std::string_view text) {
  Graph graph = parse_graph(text);
  const std::string before = canonical_text(graph);
  const PassOutcome outcome = run_pass("hoist", graph);
  EXPECT_EQ(outcome.rewrites, 0);
  EXPECT_EQ(canonical_text(graph), before);
  return outcome.declined.value_or("(it did not decline)");
}

TEST(Hoist, DeclinesWithoutALoop) {
  EXPECT_EQ(why_declined(R"(graph g {
      input %x: f32[2]
      %1: f32[2] = silu(%x)
      output y = %1
    })"),
            "there is no loop of several steps here");
}

TEST(Hoist, DeclinesWhereAllDependsOnTheState) {
  EXPECT_EQ(why_declined(R"(graph g {
      input %steps: f32[3, 2]
      state %x: f32[2]
      loop 3 %step {
        %1: f32[2] = row(%steps, %step)
        %2: f32[2] = silu(%x)
        %3: f32[2] = mul(%2, %1)
        next %x = %3
      }
    })"),
            "everything in the loop depends on its state");
}

TEST(Hoist, DeclinesWhereAllStepsTogetherAreTooLarge) {
  EXPECT_EQ(why_declined(R"(graph g {
      input %table: f32[4, 8, 1048576]
      state %x: f32[8, 1048576]
      loop 4 %step {
        %1: f32[8, 1048576] = row(%table, %step)
        %2: f32[8, 1048576] = silu(%1)
        %3: f32[8, 1048576] = add(%x, %2)
        next %x = %3
      }
    })"),
            "what depends on the step alone would take more than 64 MiB a value for all steps");
}

}  // namespace
}  // namespace headroom
