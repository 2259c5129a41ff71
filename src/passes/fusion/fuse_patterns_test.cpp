#include "passes/test_util.hpp"

namespace headroom {
namespace {

constexpr std::string_view kNormInputs = R"(
      input %x: f32[2, 3, 4]
      input %scale: f32[2, 1, 4]
      input %shift: f32[2, 1, 4])";

TEST(FuseNormModulate, FusesTheNormOfADiffusionTransformer) {
  expect_rewrite("fuse-patterns", graph_text(kNormInputs, R"(
    - %1: f32[2, 3, 4] = layer_norm(%x) {eps = 1e-06} @ norm1
    - %2: f32[2, 1, 4] = add_scalar(%scale) {value = 1} @ norm1
    - %3: f32[2, 3, 4] = mul(%1, %2) @ norm1
    - %4: f32[2, 3, 4] = add(%3, %shift) @ norm1
    + %4: f32[2, 3, 4] = norm_modulate(%x, %scale, %shift) {eps = 1e-06} @ norm1
      output y = %4)"));
}

TEST(FuseNormModulate, TakesOperandsInAnyOrder) {
  expect_rewrite("fuse-patterns", graph_text(kNormInputs, R"(
    - %1: f32[2, 3, 4] = layer_norm(%x) {eps = 1e-06} @ norm1
    - %2: f32[2, 1, 4] = add_scalar(%scale) {value = 1} @ norm1
    - %3: f32[2, 3, 4] = mul(%2, %1) @ norm1
    - %4: f32[2, 3, 4] = add(%shift, %3) @ norm1
    + %4: f32[2, 3, 4] = norm_modulate(%x, %scale, %shift) {eps = 1e-06} @ norm1
      output y = %4)"));
}

TEST(FuseNormModulate, LeavesAnotherOffset) {
  expect_unchanged("fuse-patterns", graph_text(kNormInputs, R"(
      %1: f32[2, 3, 4] = layer_norm(%x) {eps = 1e-06}
      %2: f32[2, 1, 4] = add_scalar(%scale) {value = 2}
      %3: f32[2, 3, 4] = mul(%1, %2)
      %4: f32[2, 3, 4] = add(%3, %shift)
      output y = %4)"));
}

TEST(FuseNormModulate, LeavesANormWithWeightOrBias) {
  expect_unchanged("fuse-patterns", graph_text(kNormInputs, R"(
      param %w: f32[4]
      param %b: f32[4]
      %1: f32[2, 1, 4] = add_scalar(%scale) {value = 1}
      %2: f32[2, 3, 4] = layer_norm(%x, %w) {eps = 1e-06}
      %3: f32[2, 3, 4] = mul(%2, %1)
      %4: f32[2, 3, 4] = add(%3, %shift)
      %5: f32[2, 3, 4] = layer_norm(%x, %w, %b) {eps = 1e-06}
      %6: f32[2, 3, 4] = mul(%5, %1)
      %7: f32[2, 3, 4] = add(%6, %shift)
      output weight = %4
      output both = %7)"));
}

TEST(FuseNormModulate, LeavesAScaleOfEachToken) {
  expect_unchanged("fuse-patterns", R"(graph g {
      input %x: f32[2, 3, 4]
      input %scale: f32[2, 3, 4]
      input %shift: f32[2, 1, 4]
      %1: f32[2, 3, 4] = layer_norm(%x) {eps = 1e-06}
      %2: f32[2, 3, 4] = add_scalar(%scale) {value = 1}
      %3: f32[2, 3, 4] = mul(%1, %2)
      %4: f32[2, 3, 4] = add(%3, %shift)
      output y = %4
    })");
}

TEST(FuseNormModulate, LeavesANormThatIsReadTwice) {
  expect_unchanged("fuse-patterns", graph_text(kNormInputs, R"(
      %1: f32[2, 3, 4] = layer_norm(%x) {eps = 1e-06}
      %2: f32[2, 1, 4] = add_scalar(%scale) {value = 1}
      %3: f32[2, 3, 4] = mul(%1, %2)
      %4: f32[2, 3, 4] = add(%3, %shift)
      output y = %4
      output normed = %1)"));
}

TEST(FuseNormModulate, LeavesAShiftOfEachTokenAndAProductThatIsReadTwice) {
  expect_unchanged("fuse-patterns", graph_text(kNormInputs, R"(
      input %shifts: f32[3, 4]
      %1: f32[2, 3, 4] = layer_norm(%x) {eps = 1e-06}
      %2: f32[2, 1, 4] = add_scalar(%scale) {value = 1}
      %3: f32[2, 3, 4] = mul(%1, %2)
      %4: f32[2, 3, 4] = add(%3, %shifts)
      %5: f32[2, 3, 4] = layer_norm(%x) {eps = 1e-06}
      %6: f32[2, 3, 4] = mul(%5, %2)
      %7: f32[2, 3, 4] = add(%6, %shift)
      output y = %4
      output z = %7
      output scaled = %6)"));
}

constexpr std::string_view kGateInputs = R"(
      input %residual: f32[2, 3, 4]
      input %gate: f32[2, 1, 4]
      input %x: f32[2, 3, 4])";

TEST(FuseGateResidual, FusesAGatedBranch) {
  expect_rewrite("fuse-patterns", graph_text(kGateInputs, R"(
    - %1: f32[2, 3, 4] = mul(%gate, %x) @ block
    - %2: f32[2, 3, 4] = add(%residual, %1) @ block
    + %2: f32[2, 3, 4] = gate_residual(%residual, %gate, %x) @ block
      output y = %2)"));
}

TEST(FuseGateResidual, TakesOperandsInAnyOrder) {
  expect_rewrite("fuse-patterns", graph_text(kGateInputs, R"(
    - %1: f32[2, 3, 4] = mul(%x, %gate) @ block
    - %2: f32[2, 3, 4] = add(%1, %residual) @ block
    + %2: f32[2, 3, 4] = gate_residual(%residual, %gate, %x) @ block
      output y = %2)"));
}

TEST(FuseGateResidual, TakesTheSideThatFitsOfTwoProducts) {
  expect_rewrite("fuse-patterns", R"(graph g {
      input %a: f32[2, 3, 4]
      input %b: f32[2, 3, 4]
      input %gate: f32[2, 1, 4]
      %1: f32[2, 3, 4] = mul(%a, %b)
    - %2: f32[2, 3, 4] = mul(%gate, %b)
    - %3: f32[2, 3, 4] = add(%2, %1)
    + %3: f32[2, 3, 4] = gate_residual(%1, %gate, %b)
      output y = %3
    })");
}

TEST(FuseGateResidual, LeavesOtherShapes) {
  expect_unchanged("fuse-patterns", R"(graph g {
      input %residual: f32[2, 3, 4]
      input %vector: f32[2, 1, 4]
      input %shared: f32[1, 1, 4]
      input %x: f32[2, 3, 4]
      %1: f32[2, 3, 4] = mul(%x, %residual)
      %2: f32[2, 3, 4] = add(%residual, %1)
      %3: f32[2, 3, 4] = mul(%shared, %x)
      %4: f32[2, 3, 4] = add(%residual, %3)
      %5: f32[2, 3, 4] = mul(%vector, %x)
      %6: f32[2, 3, 4] = add(%vector, %5)
      output a = %2
      output b = %4
      output c = %6
    })");
}

TEST(FuseGateResidual, LeavesIntegers) {
  expect_unchanged("fuse-patterns", R"(graph g {
      input %residual: i64[1, 1, 2]
      input %gate: i64[1, 1, 2]
      input %x: i64[1, 1, 2]
      %0: i64[1, 1, 2] = mul(%gate, %x)
      %1: i64[1, 1, 2] = add(%residual, %0)
      output y = %1
    })");
}

TEST(FuseGateResidual, LeavesAProductThatIsReadTwice) {
  expect_unchanged("fuse-patterns", graph_text(kGateInputs, R"(
      %1: f32[2, 3, 4] = mul(%gate, %x)
      %2: f32[2, 3, 4] = add(%residual, %1)
      output y = %2
      output gated = %1)"));
}

}  // namespace
}  // namespace headroom
