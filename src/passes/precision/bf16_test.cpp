#include <gmock/gmock.h>

#include "passes/test_util.hpp"

namespace headroom {
namespace {

constexpr double kBf16Tolerance = 1e-2;  // bf16 has 8 significant bits: each stored value is off by up to 2^-9

TEST(Bf16, ConvertsWhatLiesBetweenMatmuls) {
  expect_rewrite("bf16", R"(graph g {
      input %t: f32[2]
      param %w: bf16[6, 4]
      param %b: f32[6]
      param %v: f32[3, 6]
    + %8: bf16[6] = cast(%b) {dtype = bf16} @ fc1
    + %9: bf16[3, 6] = cast(%v) {dtype = bf16} @ fc2
      %1: f32[6, 4] = cast(%w) {dtype = f32} @ fc1
    + %10: bf16[6, 4] = cast(%1) {dtype = bf16} @ fc1
      %2: f32[2, 4] = timestep_embedding(%t) {dim = 4} @ time
      %3: f32[2, 4] = silu(%2) @ time
    + %11: bf16[2, 4] = cast(%3) {dtype = bf16} @ time
    - %4: f32[2, 6] = linear(%3, %1, %b) @ fc1
    + %4: bf16[2, 6] = linear(%11, %10, %8) @ fc1
    - %5: f32[2, 6] = softmax(%4) @ middle
    + %5: bf16[2, 6] = softmax(%4) @ middle
    - %6: f32[2, 3] = linear(%5, %v) @ fc2
    + %12: bf16[2, 3] = linear(%5, %9) @ fc2
    + %6: f32[2, 3] = cast(%12) {dtype = f32} @ fc2
      %7: f32[2, 3] = mul_scalar(%6) {value = 2} @ end
      output y = %7
    })",
                 3, kBf16Tolerance);
}

TEST(Bf16, CastsAValueOnceForAllItsReaders) {
  expect_rewrite("bf16", R"(graph g {
      input %x: f32[2, 4]
      param %w: f32[4, 4]
      param %v: f32[4, 4]
    + %5: bf16[4, 4] = cast(%w) {dtype = bf16} @ a
    + %6: bf16[4, 4] = cast(%v) {dtype = bf16} @ b
    + %7: bf16[2, 4] = cast(%x) {dtype = bf16} @ a
    - %1: f32[2, 4] = linear(%x, %w) @ a
    + %8: bf16[2, 4] = linear(%7, %5) @ a
    + %1: f32[2, 4] = cast(%8) {dtype = f32} @ a
    - %2: f32[2, 4] = linear(%x, %v) @ b
    + %2: bf16[2, 4] = linear(%7, %6) @ b
    - %3: f32[4, 2] = transpose(%2) {perm = [1, 0]} @ c
    + %3: bf16[4, 2] = transpose(%2) {perm = [1, 0]} @ c
    - %4: f32[2, 2] = matmul(%1, %3) @ d
    + %9: bf16[2, 2] = matmul(%8, %3) @ d
    + %4: f32[2, 2] = cast(%9) {dtype = f32} @ d
      output x = %x
      output product = %1
      output also = %1
      output y = %4
    })",
                 4, kBf16Tolerance);
}

TEST(Bf16, KeepsTheTablesOfRopeInF32AndConvertsItsQueries) {
  expect_rewrite("bf16", R"(graph g {
      input %x: f32[1, 3, 8]
      input %ids: f32[3, 1]
      param %w: f32[8, 8]
      param %norm: f32[4]
    + %7: bf16[8, 8] = cast(%w) {dtype = bf16} @ q
    + %8: bf16[4] = cast(%norm) {dtype = bf16} @ norm_q
    + %9: bf16[1, 3, 8] = cast(%x) {dtype = bf16} @ q
      %1: f32[3, 2], %2: f32[3, 2] = rope_table(%ids) {axes = [4]}
    - %3: f32[1, 3, 8] = linear(%x, %w) @ q
    + %3: bf16[1, 3, 8] = linear(%9, %7) @ q
    - %4: f32[1, 2, 3, 4] = qk_norm_rope(%3, %norm, %1, %2) {heads = 2, eps = 1e-06} @ norm_q
    + %4: bf16[1, 2, 3, 4] = qk_norm_rope(%3, %8, %1, %2) {heads = 2, eps = 1e-06} @ norm_q
    - %5: f32[1, 2, 3, 4] = rope(%4, %1, %2) @ again
    + %5: bf16[1, 2, 3, 4] = rope(%4, %1, %2) @ again
    - %6: f32[1, 2, 3, 3] = matmul(%5, %4) {transpose_b = 1} @ scores
    + %10: bf16[1, 2, 3, 3] = matmul(%5, %4) {transpose_b = 1} @ scores
    + %6: f32[1, 2, 3, 3] = cast(%10) {dtype = f32} @ scores
      output y = %6
    })",
                 4, kBf16Tolerance);
}

TEST(Bf16, KeepsStatesAndTheSumsOfASamplerInF32) {
  expect_rewrite("bf16", R"(graph g {
      param %w: f32[4, 4]
      state %latents: f32[2, 4]
    + %7: bf16[4, 4] = cast(%w) {dtype = bf16} @ in
      loop 2 %step {
    +   %8: bf16[2, 4] = cast(%latents) {dtype = bf16} @ in
    -   %1: f32[2, 4] = linear(%latents, %w) @ in
    +   %1: bf16[2, 4] = linear(%8, %7) @ in
    -   %2: f32[2, 4] = linear(%latents, %w) @ gate
    +   %2: bf16[2, 4] = linear(%8, %7) @ gate
    -   %3: f32[2, 4] = mul(%1, %2) @ product
    +   %3: bf16[2, 4] = mul(%1, %2) @ product
    -   %4: f32[2, 4] = linear(%3, %w) @ out
    +   %9: bf16[2, 4] = linear(%3, %7) @ out
    +   %4: f32[2, 4] = cast(%9) {dtype = f32} @ out
        %5: f32[2, 4] = mul_scalar(%4) {value = 0.1} @ sampler
        %6: f32[2, 4] = add(%latents, %5) @ sampler
        next %latents = %6
      }
    })",
                 4, kBf16Tolerance);
}

TEST(Bf16, ReadsAStateAnewOnEachSideOfItsLoop) {
  expect_rewrite("bf16", R"(graph g {
      param %w: f32[4, 4]
      state %x: f32[2, 4]
    + %4: bf16[4, 4] = cast(%w) {dtype = bf16} @ before
    + %5: bf16[2, 4] = cast(%x) {dtype = bf16} @ before
    - %1: f32[2, 4] = linear(%x, %w) @ before
    + %6: bf16[2, 4] = linear(%5, %4) @ before
    + %1: f32[2, 4] = cast(%6) {dtype = f32} @ before
      loop 2 %step {
        %2: f32[2, 4] = silu(%x)
        next %x = %2
      }
    + %7: bf16[2, 4] = cast(%x) {dtype = bf16} @ after
    - %3: f32[2, 4] = linear(%x, %w) @ after
    + %8: bf16[2, 4] = linear(%7, %4) @ after
    + %3: f32[2, 4] = cast(%8) {dtype = f32} @ after
      output before = %1
      output after = %3
    })",
                 2, kBf16Tolerance);
}

TEST(Bf16, TurnsAnIslandOfF32IntoBf16AndLeavesPoolsAlone) {
  expect_rewrite("bf16", R"(graph g {
      input %x: bf16[2, 4]
      input %image: f32[1, 3, 4, 4]
      param %w: bf16[4, 4]
      %1: bf16[2, 4] = linear(%x, %w) @ a
    - %2: f32[2, 4] = cast(%1) {dtype = f32} @ island
    + %2: bf16[2, 4] = cast(%1) {dtype = bf16} @ island
    - %3: f32[2, 4] = relu(%2) @ island
    + %10: bf16[2, 4] = relu(%2) @ island
    + %3: f32[2, 4] = cast(%10) {dtype = f32} @ island
      %4: bf16[2, 4] = cast(%3) {dtype = bf16} @ island
      %5: bf16[2, 4] = linear(%4, %w) @ b
      %7: f32[1, 3, 2, 2] = max_pool2d(%image) {window = 2} @ pool
      %8: f32[1, 3, 2, 1] = slice(%7) {axis = 3, start = 0, size = 1} @ slice
    + %11: bf16[1, 3, 2, 1] = cast(%8) {dtype = bf16} @ slice
    - %9: f32[1, 3, 2, 2] = matmul(%8, %8) {transpose_b = 1} @ c
    + %12: bf16[1, 3, 2, 2] = matmul(%11, %11) {transpose_b = 1} @ c
    + %9: f32[1, 3, 2, 2] = cast(%12) {dtype = f32} @ c
      output y = %5
      output z = %9
    })",
                 3, kBf16Tolerance);
}

TEST(Bf16, ConvertsConvolutionsWithTheirBiasAndWhatTheyAdd) {
  expect_rewrite("bf16", R"(graph g {
      input %x: f32[1, 2, 4, 4]
      input %r: f32[1, 3, 4, 4]
      param %kernel: f32[3, 2, 1, 1]
      param %bias: f32[3]
    + %2: bf16[3, 2, 1, 1] = cast(%kernel) {dtype = bf16} @ conv
    + %3: bf16[3] = cast(%bias) {dtype = bf16} @ conv
    + %4: bf16[1, 2, 4, 4] = cast(%x) {dtype = bf16} @ conv
    + %5: bf16[1, 3, 4, 4] = cast(%r) {dtype = bf16} @ conv
    - %1: f32[1, 3, 4, 4] = conv2d(%x, %kernel, %bias, %r) {epilogue = silu(add(sum, e0))} @ conv
    + %6: bf16[1, 3, 4, 4] = conv2d(%4, %2, %3, %5) {epilogue = silu(add(sum, e0))} @ conv
    + %1: f32[1, 3, 4, 4] = cast(%6) {dtype = f32} @ conv
      output y = %1
    })",
                 1, kBf16Tolerance);
}

TEST(Bf16, ConvertsPoolsBetweenMatmuls) {
  expect_rewrite("bf16", R"(graph g {
      input %x: f32[2, 16]
      param %w: f32[16, 16]
      param %v: f32[5, 2]
    + %7: bf16[16, 16] = cast(%w) {dtype = bf16} @ a
    + %8: bf16[5, 2] = cast(%v) {dtype = bf16} @ b
    + %9: bf16[2, 16] = cast(%x) {dtype = bf16} @ a
    - %1: f32[2, 16] = linear(%x, %w) @ a
    + %1: bf16[2, 16] = linear(%9, %7) @ a
    - %2: f32[2, 1, 4, 4] = reshape(%1) {shape = [2, 1, 4, 4]} @ image
    + %2: bf16[2, 1, 4, 4] = reshape(%1) {shape = [2, 1, 4, 4]} @ image
    - %4: f32[2, 1, 2, 2] = max_pool2d(%2) {window = 2} @ pool
    + %4: bf16[2, 1, 2, 2] = max_pool2d(%2) {window = 2} @ pool
    - %6: f32[2, 1, 2, 5] = linear(%4, %v) @ b
    + %10: bf16[2, 1, 2, 5] = linear(%4, %8) @ b
    + %6: f32[2, 1, 2, 5] = cast(%10) {dtype = f32} @ b
      output y = %6
    })",
                 4, kBf16Tolerance);
}

TEST(Bf16, WidensTablesThatAMatmulMakesAndNotWhatACastReads) {
  expect_rewrite("bf16", R"(graph g {
      input %x: f32[3, 4]
      param %w: f32[4, 4]
      param %v: f32[2, 4]
    + %6: bf16[4, 4] = cast(%w) {dtype = bf16} @ x
    + %7: bf16[2, 4] = cast(%v) {dtype = bf16} @ table
    + %8: bf16[3, 4] = cast(%x) {dtype = bf16} @ x
    - %1: f32[3, 4] = linear(%x, %w) @ x
    + %1: bf16[3, 4] = linear(%8, %6) @ x
    - %2: f32[3, 2] = linear(%x, %v) @ table
    + %2: bf16[3, 2] = linear(%8, %7) @ table
    + %9: f32[3, 2] = cast(%2) {dtype = f32} @ table
    - %3: f32[3, 4] = cast(%1) {dtype = f32} @ copy
    + %3: bf16[3, 4] = cast(%1) {dtype = bf16} @ copy
    - %4: f32[3, 4] = rope(%3, %2, %2) @ rope
    + %4: bf16[3, 4] = rope(%3, %9, %9) @ rope
    - %5: f32[3, 4] = linear(%4, %w) @ y
    + %10: bf16[3, 4] = linear(%4, %6) @ y
    + %5: f32[3, 4] = cast(%10) {dtype = f32} @ y
      output y = %5
    })",
                 5, kBf16Tolerance);
}

TEST(Bf16, DeclinesWithoutContractionsInF32) {
  for (const std::string_view text : {R"(graph g {
      input %x: f32[3]
      %1: f32[3] = silu(%x)
      output y = %1
    })",
                                      R"(graph g {
      input %x: bf16[3, 2]
      param %w: bf16[2, 2]
      %1: bf16[3, 2] = linear(%x, %w)
      output y = %1
    })",
                                      R"(graph g {
      input %x: f32[3, 2]
      param %a: f32[2, 2]
      param %b: f32[2, 2]
      %1: f32[2, 2] = matmul(%a, %b)
      %2: f32[3, 2] = mul(%x, %x)
      output weight = %1
      output y = %2
    })"}) {
    Graph graph = parse_graph(text);
    const PassOutcome outcome = run_pass("bf16", graph);
    EXPECT_EQ(outcome.rewrites, 0);
    EXPECT_EQ(outcome.declined, "the graph has no product in f32");
    EXPECT_EQ(canonical_text(graph), canonical_text(parse_graph(text)));
  }
}

TEST(Bf16, KeepsQuantizersAndTheirScalesInF32) {
  expect_rewrite("bf16", R"(graph g {
      input %x: f32[3, 4]
      param %w: f32[4, 4]
    + %7: bf16[4, 4] = cast(%w) {dtype = bf16}
    + %8: bf16[3, 4] = cast(%x) {dtype = bf16}
    - %1: f32[3, 4] = linear(%x, %w)
    + %9: bf16[3, 4] = linear(%8, %7)
    + %1: f32[3, 4] = cast(%9) {dtype = f32}
      %2: i8[3, 4], %3: f32[3] = quantize(%1) {dtype = i8}
    + %10: bf16[3] = cast(%3) {dtype = bf16}
    - %4: f32[3, 1] = reshape(%3) {shape = [3, 1]}
    + %4: bf16[3, 1] = reshape(%10) {shape = [3, 1]}
    - %5: f32[3, 4] = mul(%x, %4)
    + %5: bf16[3, 4] = mul(%8, %4)
    - %6: f32[3, 4] = linear(%5, %w)
    + %11: bf16[3, 4] = linear(%5, %7)
    + %6: f32[3, 4] = cast(%11) {dtype = f32}
      output y = %6
    })",
                 4, kBf16Tolerance);
}

TEST(Bf16, CastsInputsBeforeALoopWhoseWeightsStillStandInIt) {
  expect_rewrite("bf16", R"(graph g {
      input %x: f32[3, 2]
      param %w: f32[2, 2]
    + %4: bf16[3, 2] = cast(%x) {dtype = bf16}
      loop 2 %step {
        %1: f32[2, 2] = transpose(%w) {perm = [1, 0]}
    +   %5: bf16[2, 2] = cast(%1) {dtype = bf16}
    -   %2: f32[3, 2] = linear(%x, %1)
    +   %6: bf16[3, 2] = linear(%4, %5)
    +   %2: f32[3, 2] = cast(%6) {dtype = f32}
        yield %3: f32[3, 2] = %2
      }
      output y = %3
    })",
                 1, 1e-2);
}

TEST(Bf16, DeclinesOnACpuWithoutTheUnits) {
  constexpr std::string_view kText = R"(graph g {
      input %x: f32[3, 2]
      param %w: f32[2, 2]
      %1: f32[3, 2] = linear(%x, %w)
      output y = %1
    })";
  Graph graph = parse_graph(kText);
  const PassOutcome outcome = run_pass("bf16", graph, Target{.device = DeviceKind::kCpu, .cpu_isa = CpuIsa::kAvx2});
  EXPECT_EQ(outcome.rewrites, 0);
  EXPECT_THAT(outcome.declined.value_or(""),
              testing::HasSubstr("no bfloat16 or AVX-512 units: its vector units are avx2"));
  EXPECT_EQ(canonical_text(graph), canonical_text(parse_graph(kText)));

  for (const Target& capable : {Target{.cpu_isa = CpuIsa::kAvx512}, Target{.device = DeviceKind::kCuda}}) {
    graph = parse_graph(kText);
    EXPECT_EQ(run_pass("bf16", graph, capable).rewrites, 1);
  }
}

}  // namespace
}  // namespace headroom
