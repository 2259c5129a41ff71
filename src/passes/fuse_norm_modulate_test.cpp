#include "passes/test_util.hpp"

namespace headroom {
namespace {

constexpr std::string_view kFused = R"(graph g {
      input %x: f32[2, 3, 4]
      input %scale: f32[2, 1, 4]
      input %shift: f32[2, 1, 4]
      %1: f32[2, 3, 4] = norm_modulate(%x, %scale, %shift) {eps = 1e-06} @ norm1
      output y = %1
    })";

TEST(FuseNormModulate, FusesTheNormOfADiffusionTransformer) {
  expect_rewrite("fuse-norm-modulate", R"(graph g {
      input %x: f32[2, 3, 4]
      input %scale: f32[2, 1, 4]
      input %shift: f32[2, 1, 4]
      %1: f32[2, 3, 4] = layer_norm(%x) {eps = 1e-06} @ norm1
      %2: f32[2, 1, 4] = add_scalar(%scale) {value = 1} @ norm1
      %3: f32[2, 3, 4] = mul(%1, %2) @ norm1
      %4: f32[2, 3, 4] = add(%3, %shift) @ norm1
      output y = %4
    })",
                 kFused);
}

TEST(FuseNormModulate, TakesOperandsInAnyOrder) {
  expect_rewrite("fuse-norm-modulate", R"(graph g {
      input %x: f32[2, 3, 4]
      input %scale: f32[2, 1, 4]
      input %shift: f32[2, 1, 4]
      %1: f32[2, 3, 4] = layer_norm(%x) {eps = 1e-06} @ norm1
      %2: f32[2, 1, 4] = add_scalar(%scale) {value = 1} @ norm1
      %3: f32[2, 3, 4] = mul(%2, %1) @ norm1
      %4: f32[2, 3, 4] = add(%shift, %3) @ norm1
      output y = %4
    })",
                 kFused);
}

TEST(FuseNormModulate, LeavesAnotherOffset) {
  expect_unchanged("fuse-norm-modulate", R"(graph g {
      input %x: f32[2, 3, 4]
      input %scale: f32[2, 1, 4]
      input %shift: f32[2, 1, 4]
      %1: f32[2, 3, 4] = layer_norm(%x) {eps = 1e-06}
      %2: f32[2, 1, 4] = add_scalar(%scale) {value = 2}
      %3: f32[2, 3, 4] = mul(%1, %2)
      %4: f32[2, 3, 4] = add(%3, %shift)
      output y = %4
    })");
}

TEST(FuseNormModulate, LeavesAScaleOfEachToken) {
  expect_unchanged("fuse-norm-modulate", R"(graph g {
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
  expect_unchanged("fuse-norm-modulate", R"(graph g {
      input %x: f32[2, 3, 4]
      input %scale: f32[2, 1, 4]
      input %shift: f32[2, 1, 4]
      %1: f32[2, 3, 4] = layer_norm(%x) {eps = 1e-06}
      %2: f32[2, 1, 4] = add_scalar(%scale) {value = 1}
      %3: f32[2, 3, 4] = mul(%1, %2)
      %4: f32[2, 3, 4] = add(%3, %shift)
      output y = %4
      output normed = %1
    })");
}

TEST(FuseNormModulate, LeavesAShiftOfEachTokenAndAProductThatIsReadTwice) {
  expect_unchanged("fuse-norm-modulate", R"(graph g {
      input %x: f32[2, 3, 4]
      input %scale: f32[2, 1, 4]
      input %shift: f32[2, 1, 4]
      input %shifts: f32[2, 3, 4]
      %1: f32[2, 3, 4] = layer_norm(%x) {eps = 1e-06}
      %2: f32[2, 1, 4] = add_scalar(%scale) {value = 1}
      %3: f32[2, 3, 4] = mul(%1, %2)
      %4: f32[2, 3, 4] = add(%3, %shifts)
      %5: f32[2, 3, 4] = layer_norm(%x) {eps = 1e-06}
      %6: f32[2, 3, 4] = mul(%5, %2)
      %7: f32[2, 3, 4] = add(%6, %shift)
      output y = %4
      output z = %7
      output scaled = %6
    })");
}

}  // namespace
}  // namespace headroom
