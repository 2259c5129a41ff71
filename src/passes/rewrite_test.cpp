#include "passes/rewrite.hpp"

#include "passes/test_util.hpp"

namespace headroom {
namespace {

/// Rewrites relu(x) to x + 0, for tests of the traversal itself.
bool relu_to_offset(Rewriter& r, const Node& node) {
  if (node.op != Op::kRelu) return false;
  r.replace(node.results[0], r.emit(Op::kAddScalar, {node.inputs[0]}, {{"value", 0.0}}, node.path));
  return true;
}

TEST(Rewriter, ReplacesInNodesOutputsAndStatesAtThePlaceOfTheRoot) {
  constexpr std::string_view kDiff = R"(graph g {
      input %x: f32[3]
      state %s: f32[3]
      loop 2 %step {
        %1: f32[3] = silu(%s)
    -   %2: f32[3] = relu(%1) @ here
    +   %2: f32[3] = add_scalar(%1) {value = 0} @ here
        next %s = %2
      }
    - %3: f32[3] = relu(%x)
    + %3: f32[3] = add_scalar(%x) {value = 0}
      output y = %3
    })";
  Graph graph = graph_before(kDiff);
  EXPECT_EQ(rewrite_each(graph, relu_to_offset), 2);
  verify(graph);
  EXPECT_EQ(canonical_text(graph), canonical_text(graph_after(kDiff)));
}

TEST(Rewriter, PutsNodesOnWeightsInFrontInTheOrderTheyAreEmitted) {
  constexpr std::string_view kDiff = R"(graph g {
      param %w: f32[2, 2]
      state %x: f32[3, 2]
      %1: f32[2, 2] = mul_scalar(%w) {value = 2}
    + %3: f32[2, 2] = mul_scalar(%1) {value = 0.5} @ half
    + %4: f32[2, 2] = mul_scalar(%3) {value = 0.5} @ quarter
      loop 2 %step {
    -   %2: f32[3, 2] = linear(%x, %1)
    +   %5: f32[3, 2] = silu(%x) @ x
    +   %2: f32[3, 2] = linear(%5, %4) @ product
        next %x = %2
      }
    })";
  Graph graph = graph_before(kDiff);
  const int rewrites = rewrite_each(graph, [](Rewriter& r, const Node& node) {
    if (node.op != Op::kLinear) return false;
    EXPECT_TRUE(r.is_weight(node.inputs[1]));
    EXPECT_FALSE(r.is_weight(node.inputs[0]));
    const ValueId half = r.emit(Op::kMulScalar, {node.inputs[1]}, {{"value", 0.5}}, "half");
    const ValueId x = r.emit(Op::kSilu, {node.inputs[0]}, {}, "x");
    const ValueId quarter = r.emit(Op::kMulScalar, {half}, {{"value", 0.5}}, "quarter");
    EXPECT_TRUE(r.is_weight(quarter));
    r.replace(node.results[0], r.emit(Op::kLinear, {x, quarter}, {}, "product"));
    return true;
  });
  EXPECT_EQ(rewrites, 1);
  verify(graph);
  EXPECT_EQ(canonical_text(graph), canonical_text(graph_after(kDiff)));
}

TEST(Rewriter, PutsWhatReplacesAWeightBeforeTheWeightsThatReadIt) {
  constexpr std::string_view kDiff = R"(graph g {
      param %w: f32[2]
    - %1: f32[2] = relu(%w)
    + %1: f32[2] = add_scalar(%w) {value = 0}
      %2: f32[2] = mul_scalar(%1) {value = 2}
      output weight = %2
    })";
  Graph graph = graph_before(kDiff);
  EXPECT_EQ(rewrite_each(graph, relu_to_offset), 1);
  verify(graph);
  EXPECT_EQ(canonical_text(graph), canonical_text(graph_after(kDiff)));
}

TEST(Rewriter, CallsOnlyWhatStandsInFrontAWeight) {
  Graph graph = parse_graph(R"(graph g {
      param %w: f32[2]
      state %x: f32[2]
      loop 2 %step {
        %1: f32[2] = silu(%w)
        %2: f32[2] = add(%x, %1)
        next %x = %2
      }
      %3: f32[2] = gelu_tanh(%w)
      output y = %3
    })");
  rewrite_each(graph, [](Rewriter& r, const Node& node) {
    EXPECT_FALSE(r.is_weight(node.results[0])) << describe(node) << " cannot be read from everywhere";
    return false;
  });
}

TEST(Rewriter, DropsWhatNothingReadsAnyMoreButNotWhatIsStillRead) {
  constexpr std::string_view kDiff = R"(graph g {
      input %x: f32[3]
      %1: f32[3] = silu(%x)
    - %2: f32[3] = gelu_tanh(%1)
    - %3: f32[3] = mul(%2, %2)
    - %4: f32[3] = relu(%3)
    - output y = %4
    + output y = %x
      output kept = %1
    })";
  Graph graph = graph_before(kDiff);
  rewrite_each(graph, [](Rewriter& r, const Node& node) {
    if (node.op != Op::kRelu) return false;
    EXPECT_EQ(r.match(node.inputs[0], Op::kAdd), nullptr);
    const Node* mul = r.match_single_use(node.inputs[0], Op::kMul);
    EXPECT_NE(mul, nullptr);
    EXPECT_EQ(r.match_single_use(mul->inputs[0], Op::kGeluTanh), nullptr) << "it is read twice";
    r.replace(node.results[0], r.graph().find(ValueKind::kInput, "x"));
    return true;
  });
  verify(graph);
  EXPECT_EQ(canonical_text(graph), canonical_text(graph_after(kDiff)));
}

TEST(Rewriter, NamesTheReadersThatAreStillToCome) {
  Graph graph = parse_graph(R"(graph g {
      input %x: f32[3]
      %1: f32[3] = silu(%x)
      %2: f32[3] = relu(%x)
      %3: f32[3] = mul(%x, %x)
      %4: f32[3] = gelu_tanh(%2)
      output y = %4
      output z = %3
    })");
  rewrite_each(graph, [](Rewriter& r, const Node& node) {
    if (node.op != Op::kRelu) return false;
    const ValueId x = node.inputs[0];
    const auto ops_of_readers = [&] {
      std::vector<Op> ops;
      for (const Node* reader : r.readers_from_here(x)) ops.push_back(reader->op);
      return ops;
    };
    EXPECT_EQ(ops_of_readers(), (std::vector{Op::kRelu, Op::kMul})) << "silu is past, and mul is one reader";
    r.replace(node.results[0], x);  // now gelu reads x too, and relu is gone
    static_cast<void>(r.emit(Op::kAddScalar, {x}, {{"value", 0.0}}, ""));
    EXPECT_EQ(ops_of_readers(), (std::vector{Op::kMul, Op::kGeluTanh})) << "an emitted node precedes the current one";
    return true;
  });
}

TEST(Rewriter, RefusesAReplacementOfAnotherType) {
  Graph graph = parse_graph(R"(graph g {
      input %x: f32[3]
      input %other: f32[4]
      %1: f32[3] = relu(%x)
      output y = %1
    })");
  EXPECT_THROW(rewrite_each(graph,
                            [](Rewriter& r, const Node& node) {
                              r.replace(node.results[0], r.graph().find(ValueKind::kInput, "other"));
                              return true;
                            }),
               std::logic_error);
}

}  // namespace
}  // namespace headroom
