#include <gmock/gmock.h>

#include "passes/test_util.hpp"

namespace headroom {
namespace {

using testing::ElementsAre;

TEST(Packed, UnpacksInFrontOfEachMatmulInItsRegion) {
  expect_rewrite("packed", R"(graph g {
      param %w: u8[32, 1, 18]
      state %x: bf16[3, 32]
    - %1: bf16[32, 32] = unpack_blocks(%w) {format = "Q4_0", dtype = bf16} @ fc
      loop 4 %step {
        %2: bf16[3, 32] = silu(%x) @ act
    +   %4: bf16[32, 32] = unpack_blocks(%w) {format = "Q4_0", dtype = bf16, at_run = 1} @ fc
    -   %3: bf16[3, 32] = linear(%2, %1) @ fc
    +   %3: bf16[3, 32] = linear(%2, %4) @ fc
        next %x = %3
      }
    })");
}

TEST(Packed, JoinsMergedWeightsAndFoldsTheirOtherParts) {
  expect_rewrite("packed", R"(graph g {
      input %x: bf16[3, 32]
      param %a: u8[8, 1, 18]
      param %b: bf16[4, 32]
      param %c: u8[8, 1, 34]
    - %1: bf16[8, 32] = unpack_blocks(%a) {format = "Q4_0", dtype = bf16}
      %2: bf16[4, 32] = silu(%b)
    - %3: f32[8, 32] = unpack_blocks(%c) {format = "Q8_0"}
    - %4: bf16[8, 32] = cast(%3) {dtype = bf16}
    - %5: bf16[20, 32] = concat(%1, %2, %4) {axis = 0}
    + %1: bf16[8, 32] = unpack_blocks(%a) {format = "Q4_0", dtype = bf16, at_run = 1}
    + %3: f32[8, 32] = unpack_blocks(%c) {format = "Q8_0", at_run = 1}
    + %4: bf16[8, 32] = cast(%3) {dtype = bf16}
    + %5: bf16[20, 32] = concat(%1, %2, %4) {axis = 0}
      %6: bf16[3, 20] = linear(%x, %5)
      output y = %6
    })");
}

// The scales of all rows are folded, and so are slices of them.
TEST(Packed, MakesRowsOfFp8ByTheirFoldedScales) {
  expect_rewrite("packed", R"(graph g {
      input %x: f8e4m3[3, 32]
      input %s: f32[3]
      param %a: u8[8, 1, 18]
      param %b: u8[24, 1, 34]
      %1: f32[8, 32] = unpack_blocks(%a) {format = "Q4_0"} @ fc
      %2: f32[24, 32] = unpack_blocks(%b) {format = "Q8_0"} @ fc
      %3: f32[32, 32] = concat(%1, %2) {axis = 0} @ fc
      %4: f8e4m3[32, 32], %5: f32[32] = quantize(%3) {dtype = f8e4m3} @ fc
    - %6: bf16[3, 32] = scaled_linear(%x, %s, %4, %5) {dtype = bf16} @ fc
    + %7: f32[8] = slice(%5) {axis = 0, start = 0, size = 8} @ fc
    + %8: f8e4m3[8, 32] = unpack_blocks(%a, %7) {format = "Q4_0", dtype = f8e4m3, at_run = 1} @ fc
    + %9: f32[24] = slice(%5) {axis = 0, start = 8, size = 24} @ fc
    + %10: f8e4m3[24, 32] = unpack_blocks(%b, %9) {format = "Q8_0", dtype = f8e4m3, at_run = 1} @ fc
    + %11: f8e4m3[32, 32] = concat(%8, %10) {axis = 0} @ fc
    + %6: bf16[3, 32] = scaled_linear(%x, %s, %11, %5) {dtype = bf16} @ fc
      output y = %6
    })",
                 1, 1e-12, {}, kGeneratingGpu);
}

TEST(Packed, FoldsWhatItCannotUnpackInEveryRunAndSaysWhy) {
  Graph graph = parse_graph(R"(graph g {
      input %x: f32[3, 32]
      input %q: i8[3, 32]
      input %s: f32[3]
      param %a: u8[32, 1, 18]
      %1: f32[32, 32] = unpack_blocks(%a) {format = "Q4_0"}
      %2: f32[32, 32] = transpose(%1) {perm = [1, 0]}
      %3: i8[32, 32], %4: f32[32] = quantize(%1)
      %5: f32[3, 32] = linear(%x, %2) @ turned
      %6: f32[3, 32] = scaled_linear(%q, %s, %3, %4) @ whole
      output y = %5
      output z = %6
    })");
  const PassOutcome outcome = run_pass("packed", graph);
  EXPECT_EQ(outcome.declined, "no matmul reads a weight that is stored in blocks and can stay so");
  ASSERT_EQ(outcome.notes.size(), 2U);
  EXPECT_EQ(outcome.notes[0].reason, "its weight is changed by transpose");
  EXPECT_THAT(outcome.notes[0].nodes, ElementsAre("turned"));
  EXPECT_EQ(outcome.notes[1].reason, "its weight is quantized to i8");
  EXPECT_THAT(outcome.notes[1].nodes, ElementsAre("whole"));
}

TEST(SimplifyCasts, RoundsWhereBlocksAreUnpacked) {
  expect_rewrite("simplify-casts", R"(graph g {
      input %x: bf16[3, 32]
      param %w: u8[32, 1, 18]
    - %1: f32[32, 32] = unpack_blocks(%w) {format = "Q4_0"}
    - %2: bf16[32, 32] = cast(%1) {dtype = bf16}
    + %2: bf16[32, 32] = unpack_blocks(%w) {format = "Q4_0", dtype = bf16}
      %3: bf16[3, 32] = linear(%x, %2)
      output y = %3
    })");
}

}  // namespace
}  // namespace headroom
