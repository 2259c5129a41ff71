#include "ir/text/text.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>

#include "base/error.hpp"
#include "ir/builder.hpp"
#include "ir/test_util.hpp"
#include "ir/verify.hpp"

namespace headroom {
namespace {

using testing::HasSubstr;
using testing_tools::kF32;

/// The example of text.hpp, with results numbered as parse_graph() numbers them.
constexpr const char* kToy = R"(graph toy {
  input %x: f32[2, 4]
  param %fc.weight: bf16[8, 4]
  state %latents: f32[2, 8]
  %3: f32[8, 4] = cast(%fc.weight) {dtype = f32} @ fc
  loop 28 %step {
    %5: f32[2, 8] = linear(%x, %3) {epilogue = sum, tf32 = 0} @ fc
    next %latents = %5
  }
  output sample = %latents
}
)";

std::string wrap(const std::string& body) { return "graph g {\n  input %x: f32[2]\n" + body + "\n}\n"; }

std::string message_of(const std::string& text) {
  try {
    (void)parse_graph(text);
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing thrown";
}

TEST(Text, ReadsAndWritesTheExample) {
  const Graph graph = parse_graph(kToy);
  verify(graph);
  EXPECT_EQ(graph.name(), "toy");
  ASSERT_EQ(graph.nodes().size(), 2U);
  EXPECT_EQ(graph.nodes()[1].region, 1);
  EXPECT_EQ(graph.nodes()[1].path, "fc");
  EXPECT_EQ(graph.regions()[1].trip_count, 28);
  EXPECT_EQ(graph.value(graph.regions()[1].counter).name, "step");
  EXPECT_EQ(graph.outputs()[0].value, graph.find(ValueKind::kState, "latents"));
  ASSERT_EQ(graph.state_updates().size(), 1U);
  EXPECT_EQ(graph.state_updates()[0].region, 1);
  EXPECT_EQ(print(graph), kToy);
}

TEST(Text, NumbersAreIdsInPrintAndOrderOfAppearanceInCanonicalText) {
  Graph graph("g");
  Builder b(graph);
  const ValueId x = graph.add_input("x", {kF32, Shape{2}});
  (void)graph.add_result({kF32, Shape{9}});  // as some rewrites leave it
  graph.add_output("y", b.relu(b.silu(x)));
  EXPECT_EQ(print(graph), wrap("  %2: f32[2] = silu(%x)\n  %3: f32[2] = relu(%2)\n  output y = %3"));
  EXPECT_EQ(canonical_text(graph), wrap("  %0: f32[2] = silu(%x)\n  %1: f32[2] = relu(%0)\n  output y = %1"));
  EXPECT_EQ(canonical_text(parse_graph(print(graph))), canonical_text(graph));
}

TEST(Text, KeepsEveryKindOfAttribute) {
  Graph graph("g");
  Builder b(graph);
  const ValueId x = graph.add_input("x", {kF32, Shape{2, 4}});
  b.reshape(x, {4, -1});
  b.emit(Op::kReshape, {b.mean(x, {0, 1})}, {{"shape", std::vector<std::int64_t>{}}});
  b.emit(Op::kLinear, {x, x}, {{"epilogue", std::string("silu(sum)")}});
  b.cast(x, DType::kF8E5M2);
  b.slice(x, 1, 3, 1);
  for (const double value : {0.1, -1e-300, 1e+30, 0.0, 1.0 / 3.0, std::numeric_limits<double>::infinity(), -5.0}) {
    b.mul_scalar(x, value);
  }
  const Graph parsed = parse_graph(print(graph));
  ASSERT_EQ(parsed.nodes().size(), graph.nodes().size());
  for (std::size_t i = 0; i < graph.nodes().size(); ++i) {
    EXPECT_EQ(parsed.nodes()[i].attributes, graph.nodes()[i].attributes) << describe(graph.nodes()[i]);
  }
  EXPECT_EQ(print(parsed), print(graph));
}

TEST(Text, QuotesOddNames) {
  Graph graph("two words");
  Builder b(graph);
  const ValueId number = graph.add_input("7", {kF32, Shape{2}});
  const ValueId odd = graph.add_param("a \"b\" \\ \n\t%,é", {kF32, Shape{2}});
  const ValueId empty = graph.add_state("", {kF32, Shape{2}});
  b.set_path("blocks/3 @ {x}");
  graph.add_output("out: 1", b.add(b.add(number, odd), empty));
  {
    const auto loop = b.loop(2, "step 1");
    graph.set_next(empty, b.mul_scalar(number, 2), b.region());
  }
  const std::string text = print(graph);
  EXPECT_THAT(text, HasSubstr("graph \"two words\" {"));
  EXPECT_THAT(text, HasSubstr("input %\"7\": f32[2]"));
  EXPECT_THAT(text, HasSubstr(R"(param %"a \"b\" \\ \n\t%,é": f32[2])"));
  EXPECT_THAT(text, HasSubstr("@ \"blocks/3 @ {x}\""));
  const Graph parsed = parse_graph(text);
  EXPECT_EQ(parsed.value(ValueId{1}).name, graph.value(odd).name);
  EXPECT_EQ(parsed.nodes()[0].path, "blocks/3 @ {x}");
  EXPECT_EQ(canonical_text(parsed), canonical_text(graph));
}

TEST(Text, TellsOneNameInSeveralKindsApart) {
  Graph graph("g");
  Builder b(graph);
  const ValueId input = graph.add_input("latents", {kF32, Shape{2}});
  const ValueId state = graph.add_state("latents", {kF32, Shape{2}});
  graph.set_next(state, b.sub(input, state), kTopRegion);
  const std::string text = canonical_text(graph);
  EXPECT_THAT(text, HasSubstr("sub(%input:latents, %state:latents)"));
  EXPECT_THAT(text, HasSubstr("next %state:latents = %0"));
  const Graph parsed = parse_graph(text);
  EXPECT_EQ(parsed.nodes()[0].inputs, (std::vector<ValueId>{input, state}));
  EXPECT_EQ(canonical_text(parsed), text);
}

TEST(Text, NestsLoopsAndKeepsEmptyOnes) {
  const std::string text = R"(graph g {
  state %s: f32[2]
  state %t: f32[2]
  loop 2 %i {
    loop 3 %j {
      %0: f32[2] = relu(%s)
      loop 4 %k {
        %1: i32[] = add(%i, %j)
        %2: i32[] = add(%1, %k)
      }
      next %s = %0
      yield %3: f32[2] = %0
    }
    loop 5 %empty {
      next %t = %3
    }
  }
}
)";
  const Graph graph = parse_graph(text);
  verify(graph);
  EXPECT_EQ(graph.regions().size(), 5U);
  EXPECT_EQ(canonical_text(graph), text);
}

TEST(Text, PrintsALoopWhereItsFirstNodeStands) {
  Graph graph("g");
  Builder b(graph);
  const ValueId x = graph.add_input("x", {kF32, Shape{2}});
  const RegionId loop = graph.add_loop(kTopRegion, 2, "i");
  b.relu(x);
  b.set_region(loop);
  b.silu(x);
  b.set_region(kTopRegion);
  b.gelu(x);
  EXPECT_EQ(canonical_text(graph), wrap("  %0: f32[2] = relu(%x)\n  loop 2 %i {\n    %1: f32[2] = silu(%x)\n  }\n"
                                        "  %2: f32[2] = gelu_tanh(%x)"));
}

TEST(Text, ShowsABodyAsTheGraphThatItIs) {
  const std::string text = R"(graph g {
  input %x: f32[2, 3]
  loop 2 %i {
    %1: f32[2, 3], %2: f32[2, 3] = fused(%x) {body = graph body {
      input %a: f32[2, 3]
      %0: f32[2, 3] = silu(%a)
      %1: f32[2, 3] = mul(%0, %a)
      output gated = %1
      output gate = %0
    }} @ mlp
    %3: f32[2, 3] = add(%1, %2)
    yield %4: f32[2, 3] = %3
  }
  output y = %4
}
)";
  const Graph graph = parse_graph(text);
  verify(graph);
  EXPECT_EQ(canonical_text(parse_graph(print(graph))), canonical_text(graph));
  std::string shown = canonical_text(graph);
  EXPECT_THAT(shown, HasSubstr("    %0: f32[2, 3], %1: f32[2, 3] = fused(%x) {body = graph body {\n"
                               "      input %a: f32[2, 3]\n"
                               "      %0: f32[2, 3] = silu(%a)\n"));
  EXPECT_THAT(shown, HasSubstr("      output gate = %0\n    }} @ mlp\n"));
}

TEST(Text, KeepsLayoutsAndSeveralResults) {
  const std::string text = R"(graph g {
  input %image: f16[1, 3, 4, 4]
  input %ids: i64[5, 1]
  %0: f16[1, 3, 4, 4] channels_last = reshape(%image) {shape = [1, 3, 4, 4]}
  %1: f16[1, 3, 4, 4] = reshape(%0) {shape = [1, 3, 4, 4]}
  %2: f32[5, 2], %3: f32[5, 2] = rope_table(%ids) {axes = [4], theta = 10000}
  output image = %1
  output sin = %3
}
)";
  const Graph graph = parse_graph(text);
  EXPECT_NO_THROW(verify(graph));
  EXPECT_EQ(graph.type(graph.nodes()[0].results[0]).layout, Layout::kChannelsLast);
  EXPECT_EQ(canonical_text(graph), text);
}

TEST(Text, ReadsWhateverTheSpacingAndFillsDefaultsIn) {
  const Graph graph = parse_graph("graph g{input %x:f32[2,4]param %w:f32[3,4]%9:f32[2,3]=linear(%x,%w)output y=%9}");
  EXPECT_EQ(graph.nodes()[0].attributes[attr::kEpilogue], Epilogue());
}

TEST(Text, ErrorsNameLineAndColumn) {
  EXPECT_EQ(message_of(wrap("  %1: f32[2] = frob(%x)")), "line 3, column 16: there is no op called \"frob\"");
  EXPECT_EQ(message_of(wrap("  %1: f32[2] = relu(%y)")), "line 3, column 22: there is no value called \"y\"");
  EXPECT_EQ(message_of(wrap("  %1: f32[2] = relu(%4)")), "line 3, column 22: %4 is not defined yet");
  EXPECT_EQ(message_of("graph g {\n\n  input %x f32[2]\n}"), "line 3, column 12: expected \":\", but found \"f32\"");
}

TEST(Text, ErrorsSayWhatIsWrong) {
  const std::string relu = "  %1: f32[2] = relu(%x)\n";
  EXPECT_THAT(message_of(""), HasSubstr("expected \"graph\", but found the end of the text"));
  EXPECT_THAT(message_of("graph g {"), HasSubstr("line 1, column 10: expected \"}\""));
  EXPECT_THAT(message_of("graph g {} x"), HasSubstr("nothing may follow"));
  EXPECT_THAT(message_of("graph g { ; }"), HasSubstr("\";\" does not belong"));
  EXPECT_THAT(message_of("graph \"g"), HasSubstr("line 1, column 7: the string that starts here has no end"));
  EXPECT_THAT(message_of("graph \"g\\q\" {}"), HasSubstr("line 1, column 10: \\q is not an escape"));
  EXPECT_THAT(message_of(wrap("  input %x: f32[2]")), HasSubstr("line 3, column 10: the graph g has two values"));
  EXPECT_THAT(message_of(wrap("  input %z: f33[2]")), HasSubstr("no dtype called \"f33\""));
  EXPECT_THAT(message_of(wrap("  input %z: f32[0]")), HasSubstr("all positive"));
  EXPECT_THAT(message_of(wrap("  input %z: f32[1, 1, 1, 1, 1, 1, 1, 1, 1]")), HasSubstr("at most 8"));
  EXPECT_THAT(message_of(wrap("  input %z: f32[2, 3] channels_last")), HasSubstr("only an image"));
  EXPECT_THAT(message_of(wrap("  input %z: f32[two]")), HasSubstr("expected an integer, but found \"two\""));
  EXPECT_THAT(message_of(wrap(relu + "  %1: f32[2] = relu(%x)")), HasSubstr("line 4, column 4: %1 is defined twice"));
  EXPECT_THAT(message_of(wrap("  %h: f32[2] = relu(%x)")), HasSubstr("by number"));
  EXPECT_THAT(message_of(wrap("  %1: f32[3] = relu(%x)")), HasSubstr("relu makes f32[2], not f32[3]"));
  EXPECT_THAT(message_of(wrap("  %1: f32[2], %2: f32[2] = relu(%x)")), HasSubstr("relu has 1 results, not 2"));
  EXPECT_THAT(message_of(wrap("  %1: f32[2] = add(%x)")), HasSubstr("line 3, column 16: add: expected 2"));
  EXPECT_THAT(message_of(wrap("  %1: f32[2] = relu(%x) {eps = 1}")), HasSubstr("relu has no attribute called \"eps\""));
  EXPECT_THAT(message_of(wrap("  %1: f32[2] = mul_scalar(%x)")), HasSubstr("needs the attribute value"));
  EXPECT_THAT(message_of(wrap("  %1: f32[2] = mul_scalar(%x) {value = x}")), HasSubstr("expected a number"));
  EXPECT_THAT(message_of(wrap("  %1: f32[2] = mul_scalar(%x) {value = 1, value = 2}")), HasSubstr("twice"));
  EXPECT_THAT(message_of(wrap("  %1: f32[2] = linear(%x, %x) {epilogue = silu}")),
              HasSubstr("the epilogue \"silu\" has no '('"));
  EXPECT_THAT(message_of(wrap("  next %x = %x")), HasSubstr("only a state"));
  EXPECT_THAT(message_of(wrap("  state %s: f32[2]\n  next %s = %x\n  next %s = %x")),
              HasSubstr("line 5, column 8: the state has"));
  EXPECT_THAT(message_of(wrap("  output y = %x\n  output y = %x")), HasSubstr("two outputs called \"y\""));
  EXPECT_THAT(message_of(wrap("  loop 0 %i {\n  }")), HasSubstr("at least once"));
  EXPECT_THAT(message_of(wrap("  loop 2 %i {\n    input %z: f32[2]\n  }")),
              HasSubstr("line 4, column 5: expected a declaration"));
  EXPECT_THAT(message_of(wrap("  loop 2 %i {\n" + relu + "  }\n  output y = %1")), HasSubstr("only inside its region"));
  EXPECT_THAT(message_of(wrap("  loop 2 %i {\n" + relu + "  }\n  output y = %i")), HasSubstr("only inside its region"));
  EXPECT_THAT(message_of(wrap("  param %x: f32[2]\n" + relu)), HasSubstr("several values are called \"x\""));
  EXPECT_THAT(message_of(wrap("  %1: f32[2] = relu(%state:x)")), HasSubstr("there is no state called \"x\""));
  EXPECT_THAT(message_of(wrap("  %1: f32[2] = relu(%value:x)")), HasSubstr("\"value\" is not a kind of value"));
}

TEST(Text, WritesIfsAndWhatRegionsYield) {
  const std::string text = R"(graph g {
  input %hit: bool[]
  input %x: f32[2]
  state %s: f32[2]
  if %hit {
    %0: f32[2] = relu(%x)
    next %s = %0
    yield %1: f32[2] = %0
  } else {
    loop 3 %i {
      %2: f32[2] = silu(%x)
      yield %3: f32[2] = %2
    }
    yield %1 = %3
  }
  if %hit {
    yield %4: f32[2] = %1 else %x
  }
  output y = %4
}
)";
  const Graph graph = parse_graph(text);
  verify(graph);
  EXPECT_EQ(canonical_text(graph), text);
}

TEST(Text, KeepsTheBlocksOfAModel) {
  const std::string text = R"(graph g {
  input %x: f32[2]
  block blocks.0
  block blocks.1
  %0: f32[2] = relu(%x) @ blocks.0.norm
  %1: f32[2] = relu(%0) @ blocks.10
  %2: f32[2] = relu(%1) @ blocks.1
}
)";
  const Graph graph = parse_graph(text);
  EXPECT_EQ(canonical_text(graph), text);
  EXPECT_THAT(message_of(wrap("  block a\n  block a")), HasSubstr("line 4, column 9: the graph g has two blocks"));
}

TEST(Text, ReadsAStateAfterItsRegionAsTheRegionsResult) {
  const Graph graph = parse_graph(wrap(R"(  state %s: f32[2]
  %1: f32[2] = relu(%s)
  loop 2 %i {
    loop 2 %j {
      %2: f32[2] = add(%s, %x)
      next %s = %2
    }
  }
  %3: f32[2] = relu(%s))"));
  verify(graph);
  const std::string text = canonical_text(graph);
  EXPECT_THAT(text, HasSubstr("      yield %2: f32[2] = %1\n    }\n    yield %3: f32[2] = %2\n  }\n"));
  EXPECT_THAT(text, HasSubstr("%0: f32[2] = relu(%s)"));
  EXPECT_THAT(text, HasSubstr("%4: f32[2] = relu(%3)"));
}

TEST(Text, ErrorsOfBranchesSayWhatIsWrong) {
  const std::string hit = "  input %h: bool[]\n";
  EXPECT_THAT(message_of(wrap(hit + "  if %h {\n    yield %1: f32[2] = %x\n  }")), HasSubstr("%1 must say: else"));
  EXPECT_THAT(message_of(wrap(hit + "  if %h {\n    yield %1: f32[2] = %x\n  } else {\n  }")),
              HasSubstr("the same values"));
  EXPECT_THAT(message_of(wrap(hit + "  if %h {\n    yield %1: f32[3] = %x else %x\n  }")),
              HasSubstr("%1 is f32[3], not f32[2]"));
  EXPECT_THAT(message_of(wrap("  loop 2 %i {\n    yield %1: f32[2] = %x else %x\n  }")), HasSubstr("one value"));
  EXPECT_THAT(message_of(wrap("  yield %1: f32[2] = %x")), HasSubstr("expected a declaration"));
}

TEST(Text, ABrokenGraphCanStillBePrinted) {
  Graph graph("g");
  Builder b(graph);
  const ValueId x = graph.add_input("x", {kF32, Shape{2}});
  graph.add_output("y", b.relu(x));
  graph.set_nodes({});
  EXPECT_EQ(print(graph), wrap("  output y = %1"));
  EXPECT_EQ(canonical_text(graph), wrap("  output y = %undefined.1"));
}

}  // namespace
}  // namespace headroom
