#include "passes/split_setup.hpp"

#include "passes/test_util.hpp"

namespace headroom {
namespace {

const std::vector<std::string> kFresh = {"x"};

/// Expects these two graphs, and that together they compute the same as the original.
void expect_split(std::string_view whole, std::string_view setup, std::string_view rest,
                  const std::vector<std::string>& fresh = kFresh) {
  const Graph original = parse_graph(whole);
  Graph graph = original;
  verify(graph);
  const std::optional<Graph> split = split_setup(graph, fresh);
  ASSERT_TRUE(split);
  verify(graph);
  verify(*split);
  EXPECT_EQ(canonical_text(*split), canonical_text(parse_graph(setup)));
  EXPECT_EQ(canonical_text(graph), canonical_text(parse_graph(rest)));

  const NamedTensors params = random_tensors(original, ValueKind::kParam, 7),
                     states = random_tensors(original, ValueKind::kState, 7);
  NamedTensors inputs = random_tensors(original, ValueKind::kInput, 7);
  const auto given_to = [&](const Graph& to, const NamedTensors& all, ValueKind kind) {
    NamedTensors given;
    for (const ValueId value : to.values_of(kind)) given.emplace(to.value(value).name, all.at(to.value(value).name));
    return given;
  };
  const OracleResult expected = interpret(original, inputs, params, states);
  inputs.merge(
      interpret(*split, given_to(*split, inputs, ValueKind::kInput), given_to(*split, params, ValueKind::kParam))
          .outputs);
  EXPECT_LE(distance(interpret(graph, given_to(graph, inputs, ValueKind::kInput), params, states), expected), 1e-12);
}

void expect_whole(std::string_view text) {
  Graph graph = parse_graph(text);
  const std::string before = canonical_text(graph);
  EXPECT_FALSE(split_setup(graph, kFresh));
  EXPECT_EQ(canonical_text(graph), before);
}

// A result of unpacking, even of several that are joined, is made where it is read.
TEST(SplitSetup, UnpacksWeightsInTheProgramOfTheirMatmul) {
  expect_split(R"(graph g {
      input %x: f32[3, 32]
      input %text: f32[3, 32]
      param %w: u8[16, 1, 18]
      param %v: u8[32, 1, 18]
      %1: f32[32, 32] = unpack_blocks(%v) {format = "Q4_0", at_run = 1}
      %2: f32[3, 32] = linear(%text, %1)
      %3: f32[16, 32] = unpack_blocks(%w) {format = "Q4_0", at_run = 1}
      %4: f32[16, 32] = unpack_blocks(%w) {format = "Q4_0", at_run = 1}
      %5: f32[32, 32] = concat(%3, %4) {axis = 0}
      %6: f32[3, 32] = linear(%x, %5)
      %7: f32[3, 32] = mul(%2, %6)
      output y = %7
    })",
               R"(graph g_setup {
      input %text: f32[3, 32]
      param %v: u8[32, 1, 18]
      %1: f32[32, 32] = unpack_blocks(%v) {format = "Q4_0", at_run = 1}
      %2: f32[3, 32] = linear(%text, %1)
      output kept.0 = %2
    })",
               R"(graph g {
      input %x: f32[3, 32]
      input %text: f32[3, 32]
      input %kept.0: f32[3, 32]
      param %w: u8[16, 1, 18]
      param %v: u8[32, 1, 18]
      %3: f32[16, 32] = unpack_blocks(%w) {format = "Q4_0", at_run = 1}
      %4: f32[16, 32] = unpack_blocks(%w) {format = "Q4_0", at_run = 1}
      %5: f32[32, 32] = concat(%3, %4) {axis = 0}
      %6: f32[3, 32] = linear(%x, %5)
      %7: f32[3, 32] = mul(%kept.0, %6)
      output y = %7
    })");
}

TEST(SplitSetup, TakesWhatDependsOnNoFreshInput) {
  expect_split(R"(graph g {
      input %x: f32[3, 4]
      input %text: f32[3, 2]
      param %w: f32[4, 2]
      param %v: f32[4, 4]
      %1: f32[4, 4] = silu(%v)
      %2: f32[3, 4] = linear(%text, %w)
      %3: f32[3, 4] = linear(%2, %1)
      %4: f32[3, 4] = linear(%x, %1)
      %5: f32[3, 4] = mul(%3, %4)
      output y = %5
    })",
               R"(graph g_setup {
      input %text: f32[3, 2]
      param %w: f32[4, 2]
      param %v: f32[4, 4]
      %1: f32[4, 4] = silu(%v)
      %2: f32[3, 4] = linear(%text, %w)
      %3: f32[3, 4] = linear(%2, %1)
      output kept.0 = %3
    })",
               R"(graph g {
      input %x: f32[3, 4]
      input %text: f32[3, 2]
      input %kept.0: f32[3, 4]
      param %w: f32[4, 2]
      param %v: f32[4, 4]
      %1: f32[4, 4] = silu(%v)
      %2: f32[3, 4] = linear(%x, %1)
      %3: f32[3, 4] = mul(%kept.0, %2)
      output y = %3
    })");
}

/// A request's loop: nothing of it is fresh but its states.
TEST(SplitSetup, TakesAllBeforeALoopWithoutFreshInputs) {
  expect_split(R"(graph g {
      input %times: f32[3, 4]
      input %x: f32[2, 4]
      param %w: f32[4, 4]
      state %s: f32[2, 4]
      %1: f32[3, 4] = linear(%times, %w)
      %2: f32[2, 4] = linear(%x, %w)
      loop 3 %step {
        %3: f32[4] = row(%1, %step)
        %4: f32[2, 4] = add(%s, %3)
        %5: f32[2, 4] = mul(%4, %2)
        next %s = %5
      }
      output y = %s
    })",
               R"(graph g_setup {
      input %times: f32[3, 4]
      input %x: f32[2, 4]
      param %w: f32[4, 4]
      %1: f32[3, 4] = linear(%times, %w)
      %2: f32[2, 4] = linear(%x, %w)
      output kept.0 = %1
      output kept.1 = %2
    })",
               R"(graph g {
      input %times: f32[3, 4]
      input %x: f32[2, 4]
      input %kept.0: f32[3, 4]
      input %kept.1: f32[2, 4]
      param %w: f32[4, 4]
      state %s: f32[2, 4]
      loop 3 %step {
        %1: f32[4] = row(%kept.0, %step)
        %2: f32[2, 4] = add(%s, %1)
        %3: f32[2, 4] = mul(%2, %kept.1)
        next %s = %3
      }
      output y = %s
    })",
               {});
}

TEST(SplitSetup, LeavesViewsOfWhatItTakes) {
  expect_split(R"(graph g {
      input %x: f32[2, 4]
      input %text: f32[4, 4]
      %1: f32[4, 4] = relu(%text)
      %2: f32[2, 4] = slice(%1) {axis = 0, start = 1, size = 2}
      %3: f32[2, 4] = add(%x, %2)
      %4: f32[4, 2] = transpose(%2) {perm = [1, 0]}
      %5: f32[4, 2] = relu(%4)
      %6: f32[2, 2] = matmul(%3, %5) {transpose_b = 0}
      output y = %6
    })",
               R"(graph g_setup {
      input %text: f32[4, 4]
      %1: f32[4, 4] = relu(%text)
      %2: f32[2, 4] = slice(%1) {axis = 0, start = 1, size = 2}
      %3: f32[4, 2] = transpose(%2) {perm = [1, 0]}
      %4: f32[4, 2] = relu(%3)
      output kept.0 = %1
      output kept.1 = %4
    })",
               R"(graph g {
      input %x: f32[2, 4]
      input %text: f32[4, 4]
      input %kept.0: f32[4, 4]
      input %kept.1: f32[4, 2]
      %1: f32[2, 4] = slice(%kept.0) {axis = 0, start = 1, size = 2}
      %2: f32[2, 4] = add(%x, %1)
      %3: f32[2, 2] = matmul(%2, %kept.1) {transpose_b = 0}
      output y = %3
    })");
}

TEST(SplitSetup, TakesOutOfLoopsAndBranches) {
  expect_split(R"(graph g {
      input %x: f32[4]
      input %text: f32[4]
      input %hit: bool[]
      state %s: f32[4]
      if %hit {
        loop 3 %i {
          %1: f32[4] = silu(%text)
          %2: f32[4] = add(%s, %1)
          next %s = %2
          yield %3: f32[4] = %2
        }
        %4: f32[4] = add(%3, %x)
        yield %5: f32[4] = %4 else %x
      }
      output y = %5
    })",
               R"(graph g_setup {
      input %text: f32[4]
      %1: f32[4] = silu(%text)
      output kept.0 = %1
    })",
               R"(graph g {
      input %x: f32[4]
      input %text: f32[4]
      input %hit: bool[]
      input %kept.0: f32[4]
      state %s: f32[4]
      if %hit {
        loop 3 %i {
          %1: f32[4] = add(%s, %kept.0)
          next %s = %1
          yield %2: f32[4] = %1
        }
        %3: f32[4] = add(%2, %x)
        yield %4: f32[4] = %3 else %x
      }
      output y = %4
    })");
}

/// Only the result that is read, of a node with two.
TEST(SplitSetup, KeepsResultsStatesAndOutputsRead) {
  expect_split(R"(graph g {
      input %x: f32[3, 2]
      input %ids: f32[3, 1]
      state %s: f32[3, 2]
      %1: f32[3, 2], %2: f32[3, 2] = rope_table(%ids) {axes = [4]}
      %3: f32[3, 2] = mul(%x, %2)
      %4: f32[3, 2] = add(%3, %s)
      %5: f32[3, 2] = relu(%2)
      next %s = %5
      output y = %4
    })",
               R"(graph g_setup {
      input %ids: f32[3, 1]
      %1: f32[3, 2], %2: f32[3, 2] = rope_table(%ids) {axes = [4]}
      %3: f32[3, 2] = relu(%2)
      output kept.0 = %2
      output kept.1 = %3
    })",
               R"(graph g {
      input %x: f32[3, 2]
      input %ids: f32[3, 1]
      input %kept.0: f32[3, 2]
      input %kept.1: f32[3, 2]
      state %s: f32[3, 2]
      %1: f32[3, 2] = mul(%x, %kept.0)
      %2: f32[3, 2] = add(%1, %s)
      next %s = %kept.1
      output y = %2
    })");
}

TEST(SplitSetup, LeavesARegionItsNodes) {
  expect_whole(R"(graph g {
      input %x: bool[]
      input %text: f32[4]
      if %x {
        %1: f32[4] = silu(%text)
        %2: f32[4] = relu(%1)
        yield %3: f32[4] = %2 else %text
      }
      output y = %3
    })");
}

TEST(SplitSetup, LeavesImagesThatLieChannelsLast) {
  expect_split(R"(graph g {
      input %x: f32[1, 2, 3, 3]
      input %image: f32[1, 2, 3, 3]
      %1: f32[1, 2, 3, 3] = silu(%image)
      %2: f32[1, 2, 3, 3] channels_last = reshape(%1) {shape = [1, 2, 3, 3]}
      %3: f32[1, 2, 3, 3] channels_last = reshape(%x) {shape = [1, 2, 3, 3]}
      %4: f32[1, 2, 3, 3] channels_last = relu(%2)
      %5: f32[1, 2, 3, 3] channels_last = add(%4, %3)
      %6: f32[1, 2, 3, 3] = reshape(%5) {shape = [1, 2, 3, 3]}
      output y = %6
    })",
               R"(graph g_setup {
      input %image: f32[1, 2, 3, 3]
      %1: f32[1, 2, 3, 3] = silu(%image)
      output kept.0 = %1
    })",
               R"(graph g {
      input %x: f32[1, 2, 3, 3]
      input %image: f32[1, 2, 3, 3]
      input %kept.0: f32[1, 2, 3, 3]
      %1: f32[1, 2, 3, 3] channels_last = reshape(%kept.0) {shape = [1, 2, 3, 3]}
      %2: f32[1, 2, 3, 3] channels_last = reshape(%x) {shape = [1, 2, 3, 3]}
      %3: f32[1, 2, 3, 3] channels_last = relu(%1)
      %4: f32[1, 2, 3, 3] channels_last = add(%3, %2)
      %5: f32[1, 2, 3, 3] = reshape(%4) {shape = [1, 2, 3, 3]}
      output y = %5
    })");
}

TEST(SplitSetup, LeavesWhatReadsStatesAndWeightsAlone) {
  expect_whole(R"(graph g {
      input %x: f32[4]
      input %text: f32[4]
      param %w: f32[4]
      state %s: f32[4]
      %1: f32[4] = silu(%w)
      %2: f32[4] = add(%s, %text)
      %3: f32[4] = add(%x, %1)
      next %s = %2
      output y = %3
      output text = %text
    })");
}

TEST(SplitSetup, KnowsItsFreshInputs) {
  Graph graph = parse_graph(R"(graph g {
      input %a: f32[4]
      %1: f32[4] = silu(%a)
      output y = %1
    })");
  EXPECT_THROW((void)split_setup(graph, kFresh), std::logic_error);
}

}  // namespace
}  // namespace headroom
