#include "ir/builder.hpp"
#include "passes/test_util.hpp"

namespace headroom {
namespace {

TEST(FuseQkv, MergesProjectionsOfOneInput) {
  expect_rewrite("fuse-qkv", R"(graph g {
      input %x: f32[2, 3, 4]
      param %q.w: bf16[4, 4]
      param %k.w: bf16[2, 4]
      param %q.b: f32[4]
      param %k.b: f32[2]
      %1: f32[4, 4] = cast(%q.w) {dtype = f32} @ attn.to_q
      %2: f32[2, 4] = cast(%k.w) {dtype = f32} @ attn.to_k
    - %3: f32[2, 3, 4] = linear(%x, %1, %q.b) @ attn.to_q
    + %6: f32[6, 4] = concat(%1, %2) {axis = 0} @ attn
    + %7: f32[6] = concat(%q.b, %k.b) {axis = 0} @ attn
    + %8: f32[2, 3, 6] = linear(%x, %6, %7) @ attn
    + %3: f32[2, 3, 4] = slice(%8) {axis = 2, start = 0, size = 4} @ attn.to_q
    + %5: f32[2, 3, 2] = slice(%8) {axis = 2, start = 4, size = 2} @ attn.to_k
      %4: f32[2, 3, 4] = relu(%3)
    - %5: f32[2, 3, 2] = linear(%x, %2, %k.b) @ attn.to_k
      output q = %4
      output k = %5
    })");
}

TEST(FuseQkv, MergesInsideALoopWithWeightsInFront) {
  expect_rewrite("fuse-qkv", R"(graph g {
      param %q: f32[4, 4]
      param %k: f32[4, 4]
      state %x: f32[3, 4]
    + %4: f32[8, 4] = concat(%q, %k) {axis = 0} @ to_q
      loop 2 %step {
    -   %1: f32[3, 4] = linear(%x, %q) @ to_q
    +   %5: f32[3, 8] = linear(%x, %4) @ to_q
    -   %2: f32[3, 4] = linear(%x, %k) @ to_k
    +   %1: f32[3, 4] = slice(%5) {axis = 1, start = 0, size = 4} @ to_q
    +   %2: f32[3, 4] = slice(%5) {axis = 1, start = 4, size = 4} @ to_k
        %3: f32[3, 4] = mul(%1, %2)
        next %x = %3
      }
    })");
}

TEST(FuseQkv, LeavesOtherInputsModulesDtypesBiasesAndActivations) {
  expect_unchanged("fuse-qkv", R"(graph g {
      input %x: f32[3, 4]
      input %y: f32[3, 4]
      input %activation: f32[4, 4]
      param %a: f32[4, 4]
      param %b: f32[4, 4]
      param %bias: f32[4]
      input %narrow: bf16[3, 4]
      param %narrow.w: bf16[4, 4]
      param %narrow.bias: bf16[4]
      %7: bf16[3, 4] = linear(%narrow, %narrow.w, %bias) @ block.0.to_q
      %8: bf16[3, 4] = linear(%narrow, %narrow.w, %narrow.bias) @ block.0.to_k
      output o7 = %7
      output o8 = %8
      %1: f32[3, 4] = linear(%x, %a) @ block.0.to_q
      %2: f32[3, 4] = linear(%x, %b) @ block.1.to_q
      %3: f32[3, 4] = linear(%y, %b) @ block.0.to_k
      %4: f32[3, 4] = linear(%x, %b, %bias) @ block.0.to_k
      %5: f32[3, 4] = linear(%x, %b) {epilogue = silu(sum)} @ block.0.mlp
      %6: f32[3, 4] = linear(%x, %activation) @ block.0.to_v
      output o1 = %1
      output o2 = %2
      output o3 = %3
      output o4 = %4
      output o5 = %5
      output o6 = %6
    })");
}

TEST(FuseQkv, LeavesAMergedMatmulApartFromThoseOfTheModuleAround) {
  expect_rewrite("fuse-qkv", R"(graph g {
      input %x: f32[3, 4]
      param %q: f32[2, 4]
      param %k: f32[2, 4]
      param %mlp: f32[8, 4]
    - %1: f32[3, 2] = linear(%x, %q) @ attn.to_q
    - %2: f32[3, 2] = linear(%x, %k) @ attn.to_k
    + %4: f32[4, 4] = concat(%q, %k) {axis = 0} @ attn
    + %5: f32[3, 4] = linear(%x, %4) @ attn
    + %1: f32[3, 2] = slice(%5) {axis = 1, start = 0, size = 2} @ attn.to_q
    + %2: f32[3, 2] = slice(%5) {axis = 1, start = 2, size = 2} @ attn.to_k
      %3: f32[3, 8] = linear(%x, %mlp) @ mlp
      output q = %1
      output k = %2
      output mlp = %3
    })");
}

TEST(FuseQkv, MergesAsManyAsOneConcatTakes) {
  Graph graph;
  Builder builder(graph);
  const ValueId x = graph.add_input("x", TensorType{.dtype = DType::kF32, .shape = {3, 4}});
  for (int i = 0; i < 66; ++i) {
    const auto scope = builder.scope(fmt::format("to_{}", i));
    const ValueId weight = builder.param("weight", TensorType{.dtype = DType::kF32, .shape = {1, 4}});
    graph.add_output(fmt::format("y{}", i), builder.linear(x, weight));
  }
  const Graph original = graph;
  EXPECT_EQ(run_pass("fuse-qkv", graph).rewrites, 2);  // 64 and 2
  EXPECT_EQ(std::ranges::count(graph.nodes(), Op::kLinear, &Node::op), 2);
  EXPECT_LE(distance(interpret_on_random(graph, 7), interpret_on_random(original, 7)), 1e-12);
}

/// Five modulations of 32 Mi elements each: four and one. Matmuls of many rows do not count as conditioning, and one
/// of a small weight is not merged with those of large ones.
TEST(FuseConditioning, MergesWhatWaitsForLargeWeightsAlone) {
  Graph graph;
  Builder builder(graph);
  const ValueId vector = graph.add_input("vector", TensorType{.dtype = DType::kBF16, .shape = {2, 4096}});
  const ValueId tokens = graph.add_input("tokens", TensorType{.dtype = DType::kBF16, .shape = {2, 9, 4096}});
  const auto add = [&](const std::string& module, ValueId x, std::int64_t columns) {
    const auto scope = builder.scope(module);
    const ValueId weight = builder.param("weight", TensorType{.dtype = DType::kBF16, .shape = {columns, 4096}});
    graph.add_output(module, builder.linear(x, weight));
  };
  for (int i = 0; i < 5; ++i) add(fmt::format("blocks.{}.norm.linear", i), vector, 8192);
  add("blocks.0.norm.small", vector, 64);
  for (int i = 0; i < 2; ++i) add(fmt::format("blocks.{}.attn.to_q", i), tokens, 8192);
  EXPECT_EQ(run_pass("fuse-conditioning", graph).rewrites, 1);
  std::vector<std::pair<std::string, std::int64_t>> matmuls;
  for (const Node& node : graph.nodes())
    if (node.op == Op::kLinear) matmuls.emplace_back(node.path, graph.type(node.results[0]).shape[-1]);
  using Matmul = std::pair<std::string, std::int64_t>;
  EXPECT_EQ(matmuls, (std::vector<Matmul>{{"blocks", 4 * 8192},
                                          {"blocks.4.norm.linear", 8192},
                                          {"blocks.0.norm.small", 64},
                                          {"blocks.0.attn.to_q", 8192},
                                          {"blocks.1.attn.to_q", 8192}}));
  EXPECT_EQ(run_pass("fuse-qkv", graph).rewrites, 0);
}

/// A U-Net's projections of the text are merged across its blocks; those with as many rows as an image has tokens are
/// not.
TEST(FuseConditioning, MergesSmallMatmulsAcrossTheNetwork) {
  Graph graph;
  Builder builder(graph);
  const ValueId text = graph.add_input("text", TensorType{.shape = {2, 7, 8}});
  const ValueId image = graph.add_input("image", TensorType{.shape = {2, 1024, 8}});
  const auto add = [&](const std::string& module, ValueId x, std::int64_t columns) {
    const auto scope = builder.scope(module);
    graph.add_output(module, builder.linear(x, builder.param("weight", TensorType{.shape = {columns, 8}})));
  };
  add("down_blocks.0.attn2", text, 4);
  add("mid_block.attn2", text, 6);
  add("up_blocks.0.attn2", text, 4);
  for (const char* module : {"down_blocks.0.proj", "up_blocks.0.proj"}) add(module, image, 4);
  const Graph original = graph;
  EXPECT_EQ(run_pass("fuse-conditioning", graph).rewrites, 0) << "a CPU has no launches to save";
  EXPECT_EQ(run_pass("fuse-conditioning", graph, kGeneratingGpu).rewrites, 1);
  const auto merged = std::ranges::find(graph.nodes(), Op::kLinear, &Node::op);
  ASSERT_NE(merged, graph.nodes().end());
  EXPECT_EQ(merged->path, "attn2") << "no module holds them all, and a node of the network has a path";
  EXPECT_EQ(std::ranges::count(graph.nodes(), Op::kLinear, &Node::op), 3);
  EXPECT_LE(distance(interpret_on_random(graph, 7), interpret_on_random(original, 7)), 1e-12);
}

TEST(FuseQkv, LeavesLinearsOfOtherRegionsAndWithoutAModule) {
  expect_unchanged("fuse-qkv", R"(graph g {
      input %x: f32[3, 4]
      param %a: f32[4, 4]
      param %b: f32[4, 4]
      state %sum: f32[3, 4]
      loop 2 %step {
        %1: f32[3, 4] = linear(%x, %a) @ to_q
        %2: f32[3, 4] = add(%sum, %1)
        next %sum = %2
      }
      %3: f32[3, 4] = linear(%x, %b) @ to_k
      %4: f32[3, 4] = linear(%x, %a)
      %5: f32[3, 4] = linear(%x, %b)
      output o3 = %3
      output o4 = %4
      output o5 = %5
    })");
}

TEST(FuseQkv, LeavesMatmulsThatAreWeightsThemselves) {
  expect_unchanged("fuse-qkv", R"(graph g {
      input %y: f32[3, 4]
      param %x: f32[3, 4]
      param %q: f32[4, 4]
      param %k: bf16[4, 4]
      %1: f32[3, 4] = linear(%x, %q) @ attn.to_q
      %2: f32[4, 4] = cast(%k) {dtype = f32} @ attn.to_k
      %3: f32[3, 4] = linear(%x, %2) @ attn.to_k
      %4: f32[3, 4] = add(%y, %1)
      %5: f32[3, 4] = add(%4, %3)
      output y = %5
    })");
}

TEST(FuseQkv, LeavesReadsOfAStateOnBothSidesOfItsLoop) {
  expect_unchanged("fuse-qkv", R"(graph g {
      param %q: f32[4, 4]
      param %k: f32[4, 4]
      state %x: f32[3, 4]
      %1: f32[3, 4] = linear(%x, %q) @ to_q
      loop 2 %step {
        %2: f32[3, 4] = silu(%x)
        next %x = %2
      }
      %3: f32[3, 4] = linear(%x, %k) @ to_k
      %4: f32[3, 4] = mul(%1, %3)
      output y = %4
    })");
}

}  // namespace
}  // namespace headroom
